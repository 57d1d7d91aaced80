//! Case files as the state of a cluster.

use cucumber::given;
use schedlab_casefiles::read::{CaseInput, DEFAULT_MAX_BYTES, read_case};

use super::StepResult;
use crate::world::World;

/// Creates the objects of a case file: nodes, queues, workloads. The path is relative to the folder
/// of the features; pods that had a node are bound to it, owners and statuses are left out.
/// ```gherkin
/// Given the case "features/bugs/acme-1234.zip"
/// ```
#[given(expr = "the case {string}")]
async fn objects_of_case_exist(world: &mut World, file: String) -> StepResult {
    let path = world.case_file_path(&file);
    let CaseInput { case, .. } = read_case(&[path], DEFAULT_MAX_BYTES)?;
    let objects = case.objects_to_create(&world.scheduler_name());
    let documents = world.inline_documents(objects);
    world.submit(documents).await?;
    Ok(())
}
