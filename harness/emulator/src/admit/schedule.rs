//! When a `CronJob` starts its jobs: five fields, or a name that stands for them, refused in the
//! words of the library that the real server reads them with.

use super::job;
use crate::error::FieldErrors;
use crate::object::{self, text};
use schedlab_json::Value;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const NAMES: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What a field may hold: the least, the most, and names from the least on.
type Bounds = (u32, u32, &'static [&'static str]);

const FIELDS: [Bounds; 5] =
    [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];

/// How long a name may be that jobs' names begin with.
const NAME_MAX: usize = 52;

pub(super) fn check(cron_job: &Value, errors: &mut FieldErrors) {
    let spec = &cron_job["spec"];
    let name = object::name(cron_job);
    if name.len() > NAME_MAX {
        let rule = format!("must be no more than {NAME_MAX} characters");
        errors.invalid("metadata.name", &name.into(), &rule);
    }
    check_zone(spec["timeZone"].as_str(), errors);
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]
    {
        if let Some(count) = object::number(spec, &[field]).filter(|count| *count < 0) {
            let rule = "must be greater than or equal to 0";
            errors.invalid(format!("spec.{field}"), &count.into(), rule);
        }
    }
    let policy = text(spec, &["concurrencyPolicy"]);
    if !POLICIES.contains(&policy) {
        errors.unsupported("spec.concurrencyPolicy", &policy.into(), &POLICIES);
    }
    let mut part = FieldErrors::new();
    job::check(&spec["jobTemplate"], &mut part);
    errors.extend_below("spec.jobTemplate", part);
    let job = &spec["jobTemplate"]["spec"];
    if !job["selector"].is_null() {
        let rule = "`selector` will be auto-generated";
        errors.invalid("spec.jobTemplate.spec.selector", &job["selector"], rule);
    }
    if job["manualSelector"] == true {
        let place = "spec.jobTemplate.spec.manualSelector";
        errors.unsupported(place, &true.into(), &["nil", "false"]);
    }
    let schedule = text(cron_job, &["spec", "schedule"]);
    if schedule.is_empty() {
        errors.required("spec.schedule", "");
    } else if schedule.contains("TZ") {
        let rule = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid("spec.schedule", &schedule.into(), rule);
    } else if let Err(why) = parsed(schedule) {
        errors.invalid("spec.schedule", &schedule.into(), &why);
    }
}

/// The zone by whose clock jobs begin; a machine that knows no zones takes any.
fn check_zone(zone: Option<&str>, errors: &mut FieldErrors) {
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

fn parsed(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        let is_known = NAMES.contains(&schedule) || schedule.starts_with("@every ");
        return if is_known { Ok(()) } else { Err(format!("unrecognized descriptor: {schedule}")) };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (wanted, found) = (FIELDS.len(), fields.len());
        let shown = fields.join(" ");
        return Err(format!("expected exactly {wanted} fields, found {found}: [{shown}]"));
    }
    fields.iter().zip(FIELDS).try_for_each(|(field, bounds)| {
        let mut ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.try_for_each(|range| check_range(range, bounds))
    })
}

fn check_range(range: &str, (least, most, names): Bounds) -> Result<(), String> {
    let value = |text: &str| {
        let place = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let place = place.and_then(|at| u32::try_from(at).ok());
        place.map_or_else(|| number(text), |at| Ok(least + at))
    };
    let steps: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = steps.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (least, most),
        [one] => (value(one)?, value(one)?),
        [start, end] => (value(start)?, value(end)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => number(step)?,
        _ => return Err(format!("too many slashes: {range}")),
    };
    if steps.len() == 2 && ends.len() == 1 {
        end = most;
    }
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {range}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
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
    use super::parsed;

    #[test]
    fn a_schedule_is_five_fields_or_a_name() {
        for schedule in
            ["* * * * *", "*/15 0-6,22 1 jan MON-fri", "5/10 ? * * 6", "@hourly", "@every 1h"]
        {
            assert_eq!(parsed(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn a_wrong_schedule_is_told_why() {
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
            assert_eq!(parsed(schedule), Err(why.to_owned()), "{schedule}");
        }
    }
}
