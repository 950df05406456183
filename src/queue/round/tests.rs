//! Tests of what the scheduler has in memory.

use super::*;
use crate::model::clock::FixedClock;
use crate::model::{ActionState, Address};
use crate::outbox::by_hand;
use crate::queue::tests::{ANN, commit, directory, queue_reply, settings, store_over};
use crate::store::engine::memory::MemoryEngine;
use crate::store::lane_digest;

/// Makes a scheduler over a store whose clock is given. It has no relay.
fn scheduler(clock: Arc<FixedClock>) -> Scheduler {
    let store = store_over(Arc::new(MemoryEngine::new()), clock);
    let directory = directory(&store);
    let settings = LiveValue::new(settings(1));
    Scheduler::new((store, directory), settings, LiveValue::default(), Arc::default())
}

fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)))
}

fn wakeup(wake: WakeCondition, action: u64) -> Wakeup {
    let to = Address::from_parts(format!("u{action}"), "example.net");
    let (lane, domain) = (lane_digest(ANN, &to), [0; 8]);
    Wakeup { wake, account: ANN, action: ActionId(action), lane, domain }
}

#[test]
fn wakeups_that_return_or_have_rested_go_in_the_order_of_their_due_times() {
    use WakeCondition::{Due, Urgent};
    let clock = clock();
    let mut scheduler = scheduler(clock.clone());
    for (due, action) in [(900, 40), (300, 41)] {
        scheduler.make_ready(wakeup(Due(UtcMillis(due)), action));
    }
    let now = scheduler.now();
    for action in 1..20 {
        let due = UtcMillis(i64::try_from(100 + action * 37 % 20).unwrap());
        scheduler.set_to_rest(wakeup(Due(due), action), now.steady);
    }
    scheduler.set_to_rest(wakeup(Due(UtcMillis(500)), 42), now.steady);
    scheduler.set_to_rest(wakeup(Urgent(UtcMillis(800)), 43), now.steady);
    scheduler.refresh(now.steady);
    assert_eq!(scheduler.ready.len(), 2, "the others rest");
    clock.advance(Duration::from_secs(3600));
    let now = scheduler.now();
    scheduler.refresh(now.steady);
    scheduler.make_ready(wakeup(Urgent(UtcMillis(700)), 44));
    let ready: Vec<(WakeCondition, u64)> =
        scheduler.ready.iter().map(|ready| (ready.wake, ready.action.0)).collect();
    assert!(ready.is_sorted(), "{ready:?}");
    assert_eq!((ready.len(), ready[0].1, ready[1].1), (24, 44, 43));
    assert!(scheduler.resting.is_empty());
}

#[tokio::test]
async fn action_that_was_changed_meanwhile_is_not_remembered_as_postponed() {
    let mut scheduler = scheduler(clock());
    let (store, now) = (scheduler.store.clone(), scheduler.now());
    let until = now.wall.after(Duration::from_secs(60));
    let (bob, eve) = (
        queue_reply(&store, "bob", ActionState::Waiting),
        queue_reply(&store, "eve", ActionState::Waiting),
    );
    scheduler.fill_window(now.wall);
    let seen: Vec<Wakeup> = scheduler.ready.drain(..).collect();
    assert_eq!(seen.len(), 2);
    let read = store.snapshot().action(ANN, eve).unwrap().unwrap();
    commit(&store, |txn| {
        txn.update_action(&read, &by_hand::hold_action(&read, txn.now()).unwrap())
    });
    let deferred = seen.into_iter().map(|wakeup| (until, wakeup)).collect();
    scheduler.defer(deferred, now).await;
    let order = scheduler.order.lock();
    assert!(order.is_early((ANN, bob), now.wall) && !order.is_early((ANN, eve), now.wall));
    assert!(scheduler.in_window.is_empty());
}
