//! Signatures that hold, and those that are refused.

use std::error::Error as _;

use super::*;

fn sentence(error: &TrustError) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn what_a_key_has_signed_is_accepted_and_its_halves_have_the_form_of_nats() {
    let key = SigningKey::generate();
    let (public, seed) = (key.public(), key.seed().unwrap());
    assert_eq!((public.len(), seed.len()), (56, 58));
    assert!(public.starts_with('U') && seed.starts_with("SU"), "{public}");
    let again = SigningKey::from_seed(&format!("{seed}\n")).unwrap();
    assert_eq!(again.public(), public);
    let text = b"{\"step\":7}";
    verify(&public, text, &again.sign(text).unwrap()).unwrap();
    assert!(!format!("{key:?}").contains(&seed), "no secret is printed");
}

/// A signature of an implementation that is not this one.
#[test]
fn the_first_vector_of_rfc_8032_is_verified() {
    let secret: [u8; 32] = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];
    let key = SigningKey(KeyPair::new_from_raw(KeyPairType::User, secret).unwrap());
    let signature = URL_SAFE_NO_PAD.decode(key.sign(b"").unwrap()).unwrap();
    assert_eq!(signature[..4], [0xe5, 0x56, 0x43, 0x00]);
    assert_eq!(signature[60..], [0x8e, 0x7a, 0x10, 0x0b]);
}

#[test]
fn a_changed_byte_another_key_and_no_key_are_refused_with_their_sentences() {
    let (key, other) = (SigningKey::generate(), SigningKey::generate());
    let (public, foreign) = (key.public(), other.public());
    let signature = key.sign(b"start at 7").unwrap();
    let does_not_match =
        "its signature does not match: the message was changed or signed by another key";
    for (expected, text) in [(&foreign, b"start at 7"), (&public, b"start at 8")] {
        let error = verify(expected, text, &signature).unwrap_err();
        assert_eq!(error.kind, TrustErrorKind::Changed);
        assert_eq!(
            sentence(&error),
            format!("cannot accept the message of key '{}…': {does_not_match}", &expected[..8])
        );
    }
    // Signed by another, and said to be of this key.
    let forged = other.sign(b"start at 7").unwrap();
    let error = verify(&public, b"start at 7", &forged).unwrap_err();
    assert_eq!(error.kind, TrustErrorKind::Changed);
    for signature in ["", "AAAA", "!", &forged[1..]] {
        let error = verify(&public, b"x", signature).unwrap_err();
        assert_eq!(error.kind, TrustErrorKind::Changed, "{signature}");
    }
}

#[test]
fn texts_that_are_not_user_keys_are_refused_and_seeds_stay_secret() {
    let account = KeyPair::new_account();
    let seed = SigningKey::generate().seed().unwrap();
    for key in ["", "U", "Ü", &"U".repeat(56), &seed, &account.public_key()] {
        let error = check_public_key(key).unwrap_err();
        assert_eq!(error.kind, TrustErrorKind::InvalidKey, "{key}");
        assert!(!sentence(&error).contains(&seed), "{error}");
    }
    assert_eq!(
        sentence(&check_public_key(&account.public_key()).unwrap_err()),
        format!(
            "cannot use the key '{}…': it is not the key of a user",
            &account.public_key()[..8]
        )
    );
    for text in ["", "SU", &account.seed().unwrap(), &account.public_key()] {
        let error = SigningKey::from_seed(text).unwrap_err();
        assert_eq!(sentence(&error), "cannot read the seed: it is not SU…");
    }
    assert_eq!(TrustErrorKind::from_system(&io::Error::other("x")), TrustErrorKind::Io);
}

#[test]
fn a_message_is_signed_by_its_sender_only() {
    let (coordinator, host) = (SigningKey::generate(), SigningKey::generate());
    let mut keys = TrustedKeys::default();
    keys.trust("coordinator", &coordinator.public()).unwrap();
    keys.trust("db1", &host.public()).unwrap();
    assert_eq!(keys.trust("db2", "UX").unwrap_err().kind, TrustErrorKind::InvalidKey);
    let signature = coordinator.sign(b"order 7").unwrap();
    for (sender, bytes, is_signed) in [
        ("coordinator", b"order 7", true),
        ("coordinator", b"order 8", false),
        ("db1", b"order 7", false),
        ("db2", b"order 7", false),
    ] {
        assert_eq!(keys.is_signed(sender, bytes, &signature), is_signed, "{sender} {bytes:?}");
    }
}

const FIRST: &str = "0123456789abcdef0123456789abcdef";
const SECOND: &str = "fedcba9876543210fedcba9876543210";

#[test]
fn an_ended_campaign_stays_ended_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = Folder::open(folder.path()).unwrap();
    let mut campaigns = EndedCampaigns::open(&state).unwrap();
    assert!(campaigns.check(FIRST).is_ok());
    campaigns.end(&state, FIRST).unwrap();
    campaigns.end(&state, FIRST).unwrap();
    let text = std::fs::read_to_string(folder.path().join(ENDED_FILE)).unwrap();
    assert_eq!(text, format!("{FIRST}\n"));
    for campaigns in [&campaigns, &EndedCampaigns::open(&state).unwrap()] {
        let error = campaigns.check(FIRST).unwrap_err();
        assert_eq!(error.kind, TrustErrorKind::Replayed);
        assert_eq!(
            sentence(&error),
            format!("cannot join campaign '{FIRST}': it has ended on this host")
        );
        assert!(campaigns.check(SECOND).is_ok());
    }
    for invalid in ["", "../x", &FIRST.to_uppercase(), &FIRST[1..]] {
        let expected = format!(
            "cannot join campaign '{invalid}': a campaign is named by 32 hexadecimal digits"
        );
        assert_eq!(sentence(&campaigns.check(invalid).unwrap_err()), expected);
        assert_eq!(sentence(&campaigns.end(&state, invalid).unwrap_err()), expected);
    }
}

#[test]
fn the_list_of_ended_campaigns_keeps_the_newest_and_links_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(ENDED_FILE);
    let state = Folder::open(folder.path()).unwrap();
    let lines: String = (0..ENDED_MAX).map(|number| format!("{number:032x}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let mut campaigns = EndedCampaigns::open(&state).unwrap();
    assert!(campaigns.check(&format!("{:032x}", 0)).is_err());
    campaigns.end(&state, SECOND).unwrap();
    let campaigns = EndedCampaigns::open(&state).unwrap();
    let is_ended = |number: usize| campaigns.check(&format!("{number:032x}")).is_err();
    assert_eq!((is_ended(0), is_ended(1), is_ended(ENDED_MAX - 1)), (false, true, true));
    assert!(campaigns.check(SECOND).is_err());
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let error = EndedCampaigns::open(&state).unwrap_err();
    assert_eq!(sentence(&error), "cannot use the list of ended campaigns: it is a symbolic link");
}

#[test]
fn ten_thousand_ended_campaigns_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(ENDED_FILE);
    let state = Folder::open(folder.path()).unwrap();
    let lines: String = (0..10_000).map(|number| format!("{number:032x}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    EndedCampaigns::open(&state).unwrap().end(&state, SECOND).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let ended: Vec<&str> = text.lines().collect();
    assert_eq!((ended.len(), ended[9_999]), (10_000, SECOND));
    assert_eq!(ended[0], format!("{:032x}", 1));
}

#[test]
fn duplicates_overtaken_messages_and_earlier_boots_are_not_taken() {
    let mut newest = Newest::default();
    assert!(!newest.knows("b1", (1, 1)));
    assert_eq!(newest.take("b1", (5, 2)), Some(true));
    assert_eq!(newest.take("b1", (5, 2)), None);
    assert_eq!(newest.take("b1", (5, 1)), None);
    assert_eq!(newest.take("b1", (5, 3)), Some(false));
    assert!(newest.knows("b1", (5, 3)) && !newest.knows("b1", (5, 4)));
    assert!(newest.has((5, 3)) && newest.has((5, 2)) && !newest.has((5, 4)));
    assert!(!newest.has((4, 3)) && !newest.has((6, 3)));
    // A clock that counts from zero again.
    assert_eq!(newest.take("b2", (1, 1)), Some(true));
    assert_eq!(newest.take("b1", (9, 9)), None);
    assert!(!newest.knows("b1", (1, 1)) && newest.knows("b2", (1, 1)));
}

#[test]
fn a_sender_has_sixteen_boots() {
    let mut newest = Newest::default();
    let taken = (0..20).filter(|boot| newest.take(&format!("b{boot}"), (1, 1)).is_some());
    assert_eq!(taken.count(), 16);
}
