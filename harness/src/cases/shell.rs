//! A case of mode `rounds` a second time: its setting as objects of an emulated cluster, in virtual
//! time, with the scheduler as it runs anywhere. A round is one cycle; what is evicted comes back
//! before the next one, as work with a controller does. States are compared after as many rounds
//! as the core got, and must not move afterwards.

mod objects;
mod observed;
mod scenery;
mod stage;

use super::{
    build, compare, differs,
    format::{Case, Rounds},
    report::Verdict,
};
use stage::Stage;

/// What became of the case.
pub(super) fn verdict(case: &Case) -> Verdict {
    let Some(rounds) = &case.rounds else {
        return Verdict::NotApplicable("it is over after one pass".to_owned());
    };
    let unfit = differs::reason(&case.id).or_else(|| case.unsupported());
    if let Some(why) = unfit.or_else(|| objects::inexpressible(case)) {
        return Verdict::NotApplicable(why.to_owned());
    }
    match stage::in_virtual_time(play(case, rounds)) {
        Ok(differences) if differences.is_empty() => Verdict::Passed,
        Ok(differences) => Verdict::Failed(differences),
        Err(error) => Verdict::Failed(vec![format!("{error:#}")]),
    }
}

async fn play(case: &Case, rounds: &Rounds) -> anyhow::Result<Vec<String>> {
    let snapshot = build::snapshot(case);
    let mut stage = Stage::set(case).await?;
    for _ in 0..rounds.until_match {
        stage.round().await?;
    }
    let fates = observed::fates(&stage, &snapshot, observed::Promises::Forgotten);
    let mut found = compare::differences(case, &snapshot, &fates);
    for round in 0..rounds.after_match {
        if !found.is_empty() {
            break;
        }
        stage.round().await?;
        let fates = observed::fates(&stage, &snapshot, observed::Promises::Counted);
        let moved = compare::differences(case, &snapshot, &fates);
        found.extend(moved.into_iter().map(|text| format!("moved in round {round}: {text}")));
    }
    Ok(found)
}
