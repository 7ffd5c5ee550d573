//! When virtual committers hand their records over: at once when their last is acknowledged, or when
//! one arrives by the schedule.
//!
//! A record that arrives while every committer waits for an acknowledgement is handed over when one
//! has it: that is the storage's doing, and in its response. A record that arrives while the loop is
//! in the kernel with a batch would only have waited for that batch: its hand-over is when it
//! arrived. Only when the log was free is lateness the generator's own.

use std::collections::VecDeque;

use durio_block::{Clock, Engine, Ticks};
use durio_record::Pacing;
use durio_workload::ArrivalSchedule;

use super::LogLoop;
use crate::measured_loop::open::DueSchedule;
use crate::pacer::{Lateness, Pacer};

/// Since when each committer has no record, the longest first.
pub(crate) type Idle = VecDeque<Ticks>;

pub(super) struct Committers<'b> {
    /// What arrives; none in a closed loop.
    due: Option<DueSchedule>,
    idle: &'b mut Idle,
    pacer: Pacer,
}

impl<'b> Committers<'b> {
    pub(super) fn new(
        schedule: Option<ArrivalSchedule>,
        idle: &'b mut Idle,
        ramp_end: Ticks,
    ) -> Self {
        let due = schedule.map(|schedule| DueSchedule { schedule, next: Ticks::default() });
        Self { due, idle, pacer: Pacer::new(ramp_end) }
    }

    #[inline]
    pub(super) fn are_closed(&self) -> bool {
        self.due.is_none()
    }

    /// A committer's record is acknowledged.
    #[inline]
    pub(super) fn release(&mut self, now: Ticks) {
        self.idle.push_back(now);
    }
}

impl<E: Engine> LogLoop<'_, '_, E> {
    /// The first records: of all committers in a closed loop, those that the schedule has in an open
    /// one.
    pub(super) fn greet(&mut self) {
        let now = self.base.engine.clock().now();
        let committers = self.log.policy.committers;
        if self.committers.are_closed() {
            if !self.base.is_over() {
                self.hand_over_next(committers as usize, now);
            }
            return;
        }
        // Free from the beginning: the first arrivals need not wait.
        for _ in 0..committers {
            self.committers.release(Ticks::default());
        }
        if let Some(due) = &mut self.committers.due {
            self.base.advance(due);
        }
    }

    /// Hands over the arrived records, as far as committers have none.
    pub(super) fn hand_over_due(&mut self) {
        if self.committers.are_closed() {
            return;
        }
        let now = self.base.engine.clock().now();
        if now >= self.base.end {
            self.base.end_now();
        }
        while let Some(due) = self.committers.due.as_ref().map(|due| due.next)
            && due <= now
            && self.base.may_start(due)
            && let Some(idle_since) = self.committers.idle.pop_front()
        {
            self.arrive(due, now, idle_since);
        }
    }

    fn arrive(&mut self, due: Ticks, now: Ticks, idle_since: Ticks) {
        let free_since = self.base.last_completion;
        let could = due.max(idle_since);
        // Until its last completion the loop was in the kernel.
        let handed = if could <= free_since { could } else { now };
        let clock = self.base.engine.clock();
        let late = Lateness {
            punctual: idle_since <= due,
            behind_ns: clock.nanos(handed.since(due)),
            lag_ns: clock.nanos(handed.since(could)),
        };
        self.committers.pacer.started(due, late);
        self.hand_over(handed, due);
        if let Some(due) = &mut self.committers.due {
            self.base.advance(due);
        }
    }

    /// True if more may arrive before the end.
    pub(super) fn expects_arrivals(&self) -> bool {
        self.committers.due.is_some() && self.base.remaining > 0
    }

    /// Until when nothing has to be handed over.
    pub(super) fn next_arrival(&self) -> Ticks {
        let latest = self.base.next_look();
        match &self.committers.due {
            Some(due) if !self.committers.idle.is_empty() && self.base.may_start(due.next) => {
                due.next.min(latest)
            }
            _ => latest,
        }
    }

    /// What became of the schedule, with the arrivals that found no committer until the end.
    pub(super) fn count_missed(&mut self) -> Option<Pacing> {
        let mut due = self.committers.due.take()?;
        self.base.count_missed(&mut due, &mut self.committers.pacer);
        Some(self.committers.pacer.pacing())
    }
}
