# Makes the logs beside it, with the kernel's own target:
#   durio lab run --timing wall --root shared --out DIR -- sh -c "$(cat make.sh)"
# They are cut behind their last entry. These are of Linux 6.1.
set -e
modprobe loop; modprobe dm-log-writes
cd /tmp
for b in 512 4096; do
truncate -s 64K disk; truncate -s 256K log
L1=$(losetup -f --show -b $b disk); L2=$(losetup -f --show -b $b log)
dmsetup create lw --table "0 128 log-writes $L1 $L2"; dmsetup mknodes || true
W=/dev/mapper/lw
pat() { head -c $2 /dev/zero | tr '\0' "$1" > p; }
put() { pat $1 4096; dd if=p of=$W bs=4096 seek=$2 oflag=direct$3 conv=notrunc status=none; }
put a 0; put b 1; sync $W
dmsetup message lw 0 mark first
put c 1; put d 2 ,sync; put e 15
dmsetup message lw 0 mark second
blkdiscard -o 0 -l 4096 $W
if [ $b = 512 ]; then pat f 512; dd if=p of=$W bs=512 seek=25 oflag=direct conv=notrunc status=none; fi
sync $W
dmsetup message lw 0 mark third
put g 0
S=$(dmsetup status lw | awk '{print $5}')
dmsetup remove lw
losetup -d $L1; losetup -d $L2; sync
cp disk $DURIO_LAB_OUT/disk.$b; cp log $DURIO_LAB_OUT/log.$b; echo $b $S
rm disk log
done
