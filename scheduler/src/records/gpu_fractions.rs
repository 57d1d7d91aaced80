//! Fractional GPU requests in KAI's annotations: `gpu-fraction` or `gpu-memory`, and
//! `gpu-fraction-num-devices`. The labels of a pod name the GPUs that it shares.

use schedlab_api::{Value, annotations, labels};
use schedlab_scheduler_core::model::{
    FractionalGpu, GpuFraction, GpuGroup, Labels, mig_profile_gpus,
};

use crate::parse::{Malformed, Unit, at, list, parse_non_negative, text};

const EXPECTED_FRACTION: &str = "a number above 0 and below 1";
const EXPECTED_MEMORY: &str = "a positive integer of MiB";
const EXPECTED_DEVICES: &str = "an integer from 1 to 64, beside gpu-fraction or gpu-memory";
const EXPECTED_CONTAINER: &str = "the name of a container of the pod";
const EXPECTED_ONE_KIND: &str = "one of gpu-fraction, gpu-memory and whole GPUs";
const EXPECTED_MARK: &str = "true only beside gpu-fraction or gpu-memory";
const DEVICES_MAX: u32 = 64;

/// The fractional GPU request of a pod that also requests `whole_gpu_milli` whole GPUs; `None` if
/// it requests none.
///
/// # Errors
/// The annotations are invalid or contradict each other.
pub(crate) fn parse_fractional_gpu(
    pod: &Value,
    whole_gpu_milli: i64,
) -> Result<Option<FractionalGpu>, Malformed> {
    let annotations = at(pod, "/metadata/annotations");
    let annotation = |key: &str| annotations.and_then(|all| all.get(key)?.as_str());
    let wrong = |key: &str, found: &str, allowed| {
        Malformed::new(format!("annotation {key}"), format!("{found:?}"), allowed)
    };
    let fraction = annotation(annotations::GPU_FRACTION);
    let memory = annotation(annotations::GPU_MEMORY);
    let part = match (fraction, memory) {
        (Some(found), None) => GpuFraction::Milli(
            parse_fraction_milli(found)
                .ok_or_else(|| wrong(annotations::GPU_FRACTION, found, EXPECTED_FRACTION))?,
        ),
        (None, Some(found)) => {
            let mib = found.parse().ok().filter(|mib: &i64| *mib > 0);
            GpuFraction::MemoryMib(
                mib.ok_or_else(|| wrong(annotations::GPU_MEMORY, found, EXPECTED_MEMORY))?,
            )
        }
        (Some(_), Some(found)) => {
            return Err(wrong(annotations::GPU_MEMORY, found, EXPECTED_ONE_KIND));
        }
        (None, None) => {
            let devices = annotation(annotations::GPU_FRACTION_NUM_DEVICES);
            let devices = devices
                .map(|found| wrong(annotations::GPU_FRACTION_NUM_DEVICES, found, EXPECTED_DEVICES));
            let server = annotation("mps").filter(|value| *value == "true");
            let alone = devices.or_else(|| server.map(|found| wrong("mps", found, EXPECTED_MARK)));
            return alone.map_or(Ok(None), Err);
        }
    };
    if whole_gpu_milli > 0 {
        let (key, found) = fraction
            .map_or((annotations::GPU_MEMORY, memory), |it| (annotations::GPU_FRACTION, Some(it)));
        return Err(wrong(key, found.unwrap_or_default(), EXPECTED_ONE_KIND));
    }
    if let Some(found) = annotation(annotations::GPU_FRACTION_CONTAINER_NAME)
        && !has_container(pod, found)
    {
        return Err(wrong(annotations::GPU_FRACTION_CONTAINER_NAME, found, EXPECTED_CONTAINER));
    }
    let devices = annotation(annotations::GPU_FRACTION_NUM_DEVICES).unwrap_or("1");
    let count = devices.parse().ok().filter(|count| (1..=DEVICES_MAX).contains(count));
    let devices = count
        .ok_or_else(|| wrong(annotations::GPU_FRACTION_NUM_DEVICES, devices, EXPECTED_DEVICES))?;
    Ok(Some(FractionalGpu { fraction: part, devices }))
}

/// Whether the pod has a container or init container of this name. KAI's binder searches both
/// lists, and fails if the container is missing.
fn has_container(pod: &Value, name: &str) -> bool {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let mut containers = lists.iter().flat_map(|pointer| list(pod, pointer));
    containers.any(|container| text(container, "/name") == Some(name))
}

/// The fraction in thousandths of a GPU, rounded. As in KAI, three pods that request 0.3333 share
/// one GPU.
fn parse_fraction_milli(text: &str) -> Option<i64> {
    let fraction: f64 = text.parse().ok()?;
    let is_part = 0.0 < fraction && fraction < 1.0;
    let milli = parse_non_negative(&format!("{fraction:.3}"), Unit::Milli).ok()?;
    is_part.then_some(milli.max(1))
}

/// Whether the pod requests MIG instances by annotation, as older versions of KAI did.
pub(crate) fn is_legacy_mig(pod: &Value) -> bool {
    let annotations = at(pod, "/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|all| all.keys().any(|key| mig_profile_gpus(key).is_some()))
}

/// The GPU groups that the labels of a pod name.
pub(crate) fn gpu_groups(labels: &Labels) -> Vec<GpuGroup> {
    let one = labels.get(labels::GPU_GROUP).cloned();
    let several = labels.keys().filter_map(|key| {
        key.strip_prefix(labels::GPU_GROUP)?.strip_prefix('/').map(GpuGroup::from)
    });
    let mut groups: Vec<GpuGroup> = one.into_iter().chain(several).collect();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::json;

    use super::*;

    fn rendered(annotations: &Value) -> String {
        let pod = json!({ "metadata": { "annotations": annotations } });
        match parse_fractional_gpu(&pod, 0) {
            Ok(None) => "no parts".to_owned(),
            Ok(Some(FractionalGpu { fraction: part, devices })) => format!("{part:?} of {devices}"),
            Err(malformed) => malformed.to_string(),
        }
    }

    #[test]
    fn fractions_memory_and_devices_are_parsed_exactly() {
        assert_snapshot!(rendered(&json!({})), @"no parts");
        assert_snapshot!(rendered(&json!({ "gpu-fraction": "0.5" })), @"Milli(500) of 1");
        assert_snapshot!(rendered(&json!({ "gpu-fraction": "0.075" })), @"Milli(75) of 1");
        assert_snapshot!(rendered(&json!({ "gpu-memory": "8000" })), @"MemoryMib(8000) of 1");
        assert_snapshot!(
            rendered(&json!({ "gpu-fraction": ".25", "gpu-fraction-num-devices": "2" })), @"Milli(250) of 2");
    }

    #[test]
    fn a_fraction_is_any_number_between_0_and_1_and_is_rounded_to_thousandths() {
        let milli = |fraction: &str| rendered(&json!({ "gpu-fraction": fraction }));
        assert_snapshot!(milli("0.3333"), @"Milli(333) of 1");
        assert_snapshot!(milli("5e-1"), @"Milli(500) of 1");
        assert_snapshot!(milli("0.0571e1"), @"Milli(571) of 1");
        assert_snapshot!(milli("+0.057"), @"Milli(57) of 1");
        assert_snapshot!(milli("0.0006"), @"Milli(1) of 1");
        assert_snapshot!(milli("0.0001"), @"Milli(1) of 1");
        assert_snapshot!(milli("0.9999"), @"Milli(1000) of 1");
    }

    #[test]
    fn mps_without_a_fraction_is_malformed() {
        let of = |annotations: Value, whole: i64| {
            let pod = json!({ "metadata": { "annotations": annotations } });
            parse_fractional_gpu(&pod, whole)
                .map_or_else(|wrong| wrong.to_string(), |part| format!("{part:?}"))
        };
        assert_snapshot!(of(json!({ "mps": "true" }), 0), @r#"annotation mps: got "true", expected true only beside gpu-fraction or gpu-memory"#);
        assert_eq!(of(json!({ "mps": "true" }), 1000), of(json!({ "mps": "true" }), 0));
        assert_snapshot!(of(json!({ "mps": "false" }), 1000), @"None");
        assert_snapshot!(of(json!({ "mps": "true", "gpu-fraction": "0.5" }), 0), @"Some(FractionalGpu { fraction: Milli(500), devices: 1 })");
    }

    #[test]
    fn the_fraction_container_is_a_container_of_the_pod() {
        let of = |name: &str| {
            let wish = json!({ "gpu-fraction": "0.5", "gpu-fraction-container-name": name });
            let spec =
                json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "i" }] });
            let pod = json!({ "metadata": { "annotations": wish }, "spec": spec });
            parse_fractional_gpu(&pod, 0)
                .map_or_else(|wrong| wrong.to_string(), |part| format!("{part:?}"))
        };
        assert_eq!(of("a"), of("i"));
        assert!(of("a").starts_with("Some"));
        assert_snapshot!(of("b"), @r#"annotation gpu-fraction-container-name: got "b", expected the name of a container of the pod"#);
    }

    #[test]
    fn invalid_fractions_are_malformed() {
        for fraction in
            ["1", "1.0", "0", "0.0", "1.5", "-0.5", "500m", "half", "0.5.5", "", "NaN", "inf"]
        {
            let rendered = rendered(&json!({ "gpu-fraction": fraction }));
            assert!(rendered.starts_with("annotation gpu-fraction: got"), "{rendered}");
        }
        assert_snapshot!(rendered(&json!({ "gpu-memory": "0" })), @r#"annotation gpu-memory: got "0", expected a positive integer of MiB"#);
        assert_snapshot!(rendered(&json!({ "gpu-memory": "1", "gpu-fraction": "0.5" })), @r#"annotation gpu-memory: got "1", expected one of gpu-fraction, gpu-memory and whole GPUs"#);
        assert_snapshot!(rendered(&json!({ "gpu-fraction-num-devices": "2" })), @r#"annotation gpu-fraction-num-devices: got "2", expected an integer from 1 to 64, beside gpu-fraction or gpu-memory"#);
        assert_snapshot!(
            rendered(&json!({ "gpu-fraction": "0.5", "gpu-fraction-num-devices": "0" })), @r#"annotation gpu-fraction-num-devices: got "0", expected an integer from 1 to 64, beside gpu-fraction or gpu-memory"#);
        let pod = json!({ "metadata": { "annotations": { "gpu-fraction": "0.5" } } });
        assert_snapshot!(parse_fractional_gpu(&pod, 1000).unwrap_err(), @r#"annotation gpu-fraction: got "0.5", expected one of gpu-fraction, gpu-memory and whole GPUs"#);
    }
}
