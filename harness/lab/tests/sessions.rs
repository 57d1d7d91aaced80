//! A learner who works in another order than the lesson expects: answers come before tasks, the
//! cluster moves on, a task is solved in another way.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use schedlab_lab::catalogue::find_lesson;
use schedlab_lab::commands::parse_script;
use schedlab_lab::record::SessionStart;
use schedlab_lab::session::LessonSession;

async fn start(lesson: &str) -> LessonSession {
    let start = SessionStart {
        learner: "ada".to_owned(),
        time: "2026-05-01T08:00:00Z".parse().unwrap(),
        session: "s1".to_owned(),
    };
    LessonSession::start(find_lesson(lesson).unwrap(), start).await.unwrap()
}

/// Carries out commands, lets the cluster come to rest, and verifies. Returns what is printed.
async fn run(session: &mut LessonSession, script: &str) -> String {
    session.play(&parse_script(script).unwrap()).await.unwrap();
    session.wait(Duration::from_secs(5)).await.unwrap();
    session.verify().await.unwrap().to_string()
}

async fn answer(session: &mut LessonSession, number: usize, text: &str) -> String {
    session.answer(number, text).await.unwrap().to_string()
}

const SCALE_TO_4: &str = "kubectl scale deployment research --replicas=4";
const SCALE_TO_16: &str = "kubectl scale deployment research --replicas=16";

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn an_answer_before_its_task_does_not_count() {
    let mut session = start("c-reclaim").await;
    // Right for the cluster of this moment: all 32 GPUs are used on a quota of 16.
    let early = answer(&mut session, 3, "16").await;
    assert_eq!(early, "○ Not yet: solve task 2 first, the question is about its result.\n");
    assert_eq!(session.quiz()[2].waits_for_task, Some(2));
    run(&mut session, "kubectl apply -f research.yaml").await;
    assert_eq!(session.quiz()[1].waits_for_task, None, "it belongs to task 1");
    assert_eq!(session.quiz()[2].waits_for_task, Some(2));
    let done = run(&mut session, SCALE_TO_4).await;
    assert!(done.contains("Open: 3 questions."), "{done}");
    assert_eq!(session.record().right_answers(), 0);
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_question_is_about_the_moment_at_which_its_task_was_solved() {
    let mut session = start("c-reclaim").await;
    run(&mut session, "kubectl apply -f research.yaml").await;
    run(&mut session, SCALE_TO_4).await;
    let again = run(&mut session, SCALE_TO_16).await;
    assert!(
        again.contains("✔ Task 2: What team-research leaves idle is lent again (solved at 20"),
        "{again}"
    );
    let now = answer(&mut session, 3, "0").await;
    assert!(
        now.starts_with("✘ The cluster shows this now. The question is about the moment"),
        "{now}"
    );
    let right = answer(&mut session, 3, "12").await;
    assert!(right.contains("✔ Right. It uses 28 GPUs on a quota of 16"), "{right}");
    let wrong = answer(&mut session, 3, "13").await;
    assert!(wrong.contains("Your earlier answer 12 is right and counts."), "{wrong}");
    assert_eq!(session.record().right_answers(), 1);
    let lesson = find_lesson("c-reclaim").unwrap();
    assert_eq!(session.evidence().await.unwrap().problems(&lesson), [] as [String; 0]);
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn right_answers_survive_a_reset_and_count_when_the_task_is_solved_again() {
    let mut session = start("b-borrow").await;
    run(&mut session, "kubectl apply -f prod-borrow-solved.yaml").await;
    answer(&mut session, 1, "16").await;
    session.reset().await.unwrap();
    assert_eq!(session.record().right_answers(), 0);
    run(&mut session, "kubectl apply -f prod-borrow-solved.yaml").await;
    assert_eq!(session.record().right_answers(), 1);
    let lesson = find_lesson("b-borrow").unwrap();
    assert_eq!(session.evidence().await.unwrap().problems(&lesson), [] as [String; 0]);
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_word_instead_of_a_number_is_no_answer() {
    let mut session = start("b-borrow").await;
    run(&mut session, "kubectl apply -f prod-borrow-solved.yaml").await;
    for given in ["nine", "32 GPUs"] {
        let error = session.answer(1, given).await.unwrap_err().to_string();
        assert_eq!(error, format!("got {given}, expected a number"));
    }
    assert_eq!(session.record().answers[0].tries, 0);
    assert_eq!(answer(&mut session, 3, "inference").await.chars().next(), Some('✘'));
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_cure_by_priority_is_explained_without_a_quota() {
    let mut session = start("e-starvation").await;
    run(&mut session, "kubectl apply -f research.yaml").await;
    let cure = "kubectl patch queue team-prod --type=merge -p '{\"spec\":{\"priority\":100}}'";
    let mut report = run(&mut session, cure).await;
    // The last pods of a wave of the flood run for five minutes.
    for _ in 0..3 {
        if report.contains("✔ Task 2") {
            break;
        }
        report = run(&mut session, "schedlab lab wait 5m").await;
    }
    assert!(report.contains("✔ Task 2"), "{report}");
    let expected = session.expected_answers(1).unwrap();
    let right = answer(&mut session, 2, &expected[0]).await;
    assert!(right.starts_with("✔ Right.") && !right.contains("takes its quota"), "{right}");
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_deleted_workload_of_the_lesson_is_named() {
    let mut session = start("c-reclaim").await;
    run(&mut session, "kubectl delete deployment prod-borrow").await;
    assert_eq!(session.deleted_objects(), ["Deployment lab/prod-borrow"]);
    assert_eq!(session.restore_missing().await.unwrap(), [] as [String; 0]);
    let mut topology = start("topology").await;
    run(&mut topology, "kubectl delete deployment busy-b -n default").await;
    assert_eq!(topology.deleted_objects(), [] as [String; 0], "a task deletes it");
}
