//! Validation of `CronJob`. Errors of the schedule use the texts of the cron library of the API
//! server (robfig/cron).

use crate::admission::batch;
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{self, text},
};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const CONCURRENCY_POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const SCHEDULE_DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The allowed values of a field in a cron schedule, such as minute or month.
#[derive(Clone, Copy)]
struct FieldBounds {
    min: u32,
    max: u32,
    /// The names of the values from `min` on, such as `jan`; empty if the field has no names.
    names: &'static [&'static str],
}

const SCHEDULE_FIELDS: [FieldBounds; 5] = [
    FieldBounds { min: 0, max: 59, names: &[] },
    FieldBounds { min: 0, max: 23, names: &[] },
    FieldBounds { min: 1, max: 31, names: &[] },
    FieldBounds { min: 1, max: 12, names: &MONTHS },
    FieldBounds { min: 0, max: 6, names: &DAYS },
];

/// The maximum length of a `CronJob` name: job names add a suffix of 11 characters.
const NAME_LENGTH_MAX: usize = 52;

pub(in crate::admission) fn check_cron_job(cron_job: &Value, errors: &mut FieldErrors) {
    let spec = &cron_job["spec"];
    let name = object::name(cron_job);
    if name.len() > NAME_LENGTH_MAX {
        let rule = format!("must be no more than {NAME_LENGTH_MAX} characters");
        errors.invalid("metadata.name", &name.into(), &rule);
    }
    check_time_zone(spec["timeZone"].as_str(), errors);
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]
    {
        if let Some(count) = object::number(spec, &[field]).filter(|count| *count < 0) {
            let rule = "must be greater than or equal to 0";
            errors.invalid(format!("spec.{field}"), &count.into(), rule);
        }
    }
    let policy = text(spec, &["concurrencyPolicy"]);
    if !CONCURRENCY_POLICIES.contains(&policy) {
        errors.unsupported("spec.concurrencyPolicy", &policy.into(), &CONCURRENCY_POLICIES);
    }
    let mut part = FieldErrors::new();
    batch::check_job(&spec["jobTemplate"], &mut part);
    errors.extend_below("spec.jobTemplate", part);
    let job = &spec["jobTemplate"]["spec"];
    if !job["selector"].is_null() {
        let rule = "`selector` will be auto-generated";
        errors.invalid("spec.jobTemplate.spec.selector", &job["selector"], rule);
    }
    if job["manualSelector"] == true {
        let path = "spec.jobTemplate.spec.manualSelector";
        errors.unsupported(path, &true.into(), &["nil", "false"]);
    }
    let schedule = text(cron_job, &["spec", "schedule"]);
    if schedule.is_empty() {
        errors.required("spec.schedule", "");
    } else if schedule.contains("TZ") {
        let rule = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid("spec.schedule", &schedule.into(), rule);
    } else if let Err(why) = check_schedule(schedule) {
        errors.invalid("spec.schedule", &schedule.into(), &why);
    }
}

/// Checks `timeZone` of a CronJob. Any name is accepted if this machine has no time zone database.
fn check_time_zone(zone: Option<&str>, errors: &mut FieldErrors) {
    let Some(zone) = zone else { return };
    let known = jiff::tz::db();
    let rule = match zone {
        "" => "timeZone must be nil or non-empty string".to_owned(),
        _ if zone.eq_ignore_ascii_case("local") => {
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                .to_owned()
        }
        _ if known.is_definitively_empty() || known.get(zone).is_ok() => return,
        _ => format!("unknown time zone {zone}"),
    };
    errors.invalid("spec.timeZone", &zone.into(), &rule);
}

fn check_schedule(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        let is_known = SCHEDULE_DESCRIPTORS.contains(&schedule) || schedule.starts_with("@every ");
        return if is_known { Ok(()) } else { Err(format!("unrecognized descriptor: {schedule}")) };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != SCHEDULE_FIELDS.len() {
        let (expected, found) = (SCHEDULE_FIELDS.len(), fields.len());
        let shown = fields.join(" ");
        return Err(format!("expected exactly {expected} fields, found {found}: [{shown}]"));
    }
    fields.iter().zip(SCHEDULE_FIELDS).try_for_each(|(field, bounds)| {
        let mut ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.try_for_each(|range| check_schedule_range(range, bounds))
    })
}

fn check_schedule_range(range: &str, bounds: FieldBounds) -> Result<(), String> {
    let FieldBounds { min, max, names } = bounds;
    let value = |text: &str| {
        let position = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let offset = position.and_then(|at| u32::try_from(at).ok());
        offset.map_or_else(|| parse_number(text), |at| Ok(min + at))
    };
    let steps: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = steps.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (min, max),
        [one] => (value(one)?, value(one)?),
        [start, end] => (value(start)?, value(end)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => parse_number(step)?,
        _ => return Err(format!("too many slashes: {range}")),
    };
    if steps.len() == 2 && ends.len() == 1 {
        end = max;
    }
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {range}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn parse_number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(negative) if negative < 0 => {
            Err(format!("negative number ({negative}) not allowed: {text}"))
        }
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check_schedule;

    #[test]
    fn a_schedule_is_five_fields_or_a_name() {
        for schedule in
            ["* * * * *", "*/15 0-6,22 1 jan MON-fri", "5/10 ? * * 6", "@hourly", "@every 1h"]
        {
            assert_eq!(check_schedule(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn an_invalid_schedule_is_rejected_with_the_parser_message() {
        let cases = [
            ("whenever", "expected exactly 5 fields, found 1: [whenever]"),
            ("@often", "unrecognized descriptor: @often"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* 5-2 * * *", "beginning of range (5) beyond end of range (2): 5-2"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
        ];
        for (schedule, why) in cases {
            assert_eq!(check_schedule(schedule), Err(why.to_owned()), "{schedule}");
        }
    }
}
