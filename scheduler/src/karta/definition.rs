//! Parses and validates Karta objects. Rejects what KAI's validation rejects; ignores fields that
//! do not affect the grouping of pods.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    DescribedKind,
    expression::Expression,
    tree::{Component, Gang, Karta, Member, Scale, Selector, SubGroup},
};
use crate::parse::{Malformed, at, name, shown};

const ROOT_FIELD: &str = "spec.structureDefinition.rootComponent";
const CHILDREN_FIELD: &str = "spec.structureDefinition.childComponents";
const GANG_FIELD: &str = "spec.optimizationInstructions.gangScheduling";
pub(super) const KIND_FIELD: &str = "spec.structureDefinition.rootComponent.kind";
/// Maximum number of components, and of members of all pod groups.
const COMPONENTS_MAX: usize = 256;

const EXPECTED_NAME: &str = "a name that no other component has";
const EXPECTED_COMPONENT: &str = "the name of a component";
const EXPECTED_OTHER_COMPONENT: &str = "a component that no earlier sub-group names";
const EXPECTED_PARENT: &str = "another component, from which ownerRefs lead to the rootComponent";
const EXPECTED_OBJECT: &str = "an object";
const EXPECTED_LIST: &str = "a list";
const EXPECTED_STRING: &str = "a string";
const EXPECTED_EXPRESSION: &str = "a jq expression";
/// Labels by which KAI finds the Karta of a kind, and what the value of each label must be.
const KIND_LABELS: [(&str, &str); 3] = [
    ("group", "the group of its rootComponent.kind"),
    ("version", "the version of its rootComponent.kind"),
    ("kind", "the kind of its rootComponent.kind"),
];

/// The kind whose pods a Karta groups; `None`: the Karta groups no pods. A Karta with an error is
/// not found by its kind.
pub(super) fn read_described_kind(object: &Value) -> Result<Option<DescribedKind>, Malformed> {
    if at(object, "/metadata/deletionTimestamp").is_some() {
        return Ok(None);
    }
    KartaReader::new(object).read_described_kind()
}

/// Parses components and gang scheduling section of a Karta.
pub(super) fn parse_karta(object: &Value) -> Result<Karta, Malformed> {
    let reader = KartaReader::new(object);
    let components = reader.parse_components()?;
    let gang = reader.parse_gang(&components)?;
    Ok(Karta { name: reader.name, components, gang })
}

struct KartaReader<'a> {
    object: &'a Value,
    name: Name,
}

/// A value inside a Karta, with its field path for error messages.
#[derive(Clone, Copy)]
struct FieldRef<'a> {
    value: &'a Value,
    path: &'a str,
}

impl<'a> KartaReader<'a> {
    fn new(object: &'a Value) -> Self {
        Self { object, name: name(object, "/metadata/name").unwrap_or_default() }
    }

    fn root_field(&self) -> FieldRef<'a> {
        FieldRef { value: self.object, path: "" }
    }

    /// Field path for error messages, with the name of this Karta.
    fn field_with_karta_name(&self, path: &str) -> String {
        format!("{path} of Karta {}", self.name)
    }

    fn malformed(&self, path: &str, found: &str, allowed: &'static str) -> Malformed {
        Malformed::new(
            self.field_with_karta_name(path),
            if found.is_empty() { "nothing" } else { found },
            allowed,
        )
    }

    /// Value of a field; `None`: the field is missing or null.
    fn non_null_value<'v>(
        &self,
        target: FieldRef<'v>,
        field: &str,
    ) -> Result<Option<&'v Value>, Malformed> {
        let (mut of, mut path) = (target.value, target.path.to_owned());
        for part in field.split('.') {
            match of {
                Value::Null => return Ok(None),
                Value::Object(fields) => match fields.get(part) {
                    None => return Ok(None),
                    Some(inner) => of = inner,
                },
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(self.malformed(&path, &shown(of), EXPECTED_OBJECT));
                }
            }
            path = join_path(&path, part);
        }
        Ok(Some(of).filter(|of| !of.is_null()))
    }

    /// Value of a field, converted by `read`; an error if it has another type.
    fn typed_value<'v, T>(
        &self,
        target: FieldRef<'v>,
        field: &str,
        read: impl Fn(&'v Value) -> Option<T>,
        allowed: &'static str,
    ) -> Result<Option<T>, Malformed> {
        let Some(found) = self.non_null_value(target, field)? else { return Ok(None) };
        let wrong = || self.malformed(&join_path(target.path, field), &shown(found), allowed);
        read(found).ok_or_else(wrong).map(Some)
    }

    fn read_object<'v>(
        &self,
        target: FieldRef<'v>,
        field: &str,
    ) -> Result<Option<&'v Value>, Malformed> {
        self.typed_value(
            target,
            field,
            |found| Some(found).filter(|it| it.is_object()),
            EXPECTED_OBJECT,
        )
    }

    /// Reads a list field; empty if the field is missing.
    fn read_list<'v>(&self, target: FieldRef<'v>, field: &str) -> Result<&'v [Value], Malformed> {
        let list = self.typed_value(target, field, Value::as_array, EXPECTED_LIST)?;
        Ok(list.map_or(&[], Vec::as_slice))
    }

    /// Reads a string field; empty if the field is missing.
    fn read_text<'v>(&self, target: FieldRef<'v>, field: &str) -> Result<&'v str, Malformed> {
        Ok(self.typed_value(target, field, Value::as_str, EXPECTED_STRING)?.unwrap_or_default())
    }

    /// Reads a string field that names something; `None` if it is missing or empty.
    fn read_name(&self, target: FieldRef<'_>, field: &str) -> Result<Option<Name>, Malformed> {
        let text = self.read_text(target, field)?;
        Ok((!text.is_empty()).then(|| text.into()))
    }

    fn read_described_kind(&self) -> Result<Option<DescribedKind>, Malformed> {
        let Some(gang) = self.read_object(self.root_field(), GANG_FIELD)? else { return Ok(None) };
        let gang = FieldRef { value: gang, path: GANG_FIELD };
        if self.read_object(gang, "podGroup")?.is_none()
            && self.read_list(gang, "podGroups")?.is_empty()
        {
            return Ok(None);
        }
        let kind = self.non_null_value(self.root_field(), KIND_FIELD)?.unwrap_or(&Value::Null);
        let kind = FieldRef { value: kind, path: KIND_FIELD };
        let part = |part| self.read_text(kind, part);
        let (group, version, kind) = (part("group")?, part("version")?, part("kind")?);
        // Of the core group, whose name is empty, only pods are supported.
        let has_group = !group.is_empty() || kind == "Pod";
        if !has_group || version.is_empty() || kind.is_empty() {
            return Err(self.malformed(
                KIND_FIELD,
                "an incomplete kind",
                "group, version and kind",
            ));
        }
        for ((part, allowed), value) in KIND_LABELS.into_iter().zip([group, version, kind]) {
            self.check_label(part, value, allowed)?;
        }
        let api_version =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Ok(Some((api_version.into(), kind.into())))
    }

    /// Checks that a label matches the described kind.
    fn check_label(&self, part: &str, value: &str, allowed: &'static str) -> Result<(), Malformed> {
        let label = format!("run.ai/karta-{part}");
        let found = at(self.object, "/metadata/labels").and_then(|labels| labels.get(&*label));
        if found.and_then(Value::as_str) == Some(value) {
            return Ok(());
        }
        let found = found.map_or_else(|| "nothing".to_owned(), shown);
        let found = format!("{found} for rootComponent.kind {value:?}");
        Err(self.malformed(&format!("metadata.labels[{label}]"), &found, allowed))
    }

    /// The root component, then its children in the order of the list.
    fn parse_components(&self) -> Result<Vec<Component>, Malformed> {
        let root = self.read_object(self.root_field(), ROOT_FIELD)?.unwrap_or(&Value::Null);
        let children = self.read_list(self.root_field(), CHILDREN_FIELD)?;
        if children.len() >= COMPONENTS_MAX {
            let found = format!("{} components", children.len());
            return Err(self.malformed(CHILDREN_FIELD, &found, "at most 255 components"));
        }
        let root = FieldRef { value: root, path: ROOT_FIELD };
        self.check_root(root)?;
        let mut components = vec![self.parse_component(root)?];
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN_FIELD}[{position}]");
            let component = self.parse_component(FieldRef { value: of, path: &path })?;
            if components.iter().any(|other| other.name == component.name) {
                return Err(self.malformed(
                    &format!("{path}.name"),
                    &component.name,
                    EXPECTED_NAME,
                ));
            }
            components.push(component);
        }
        self.link_parents(&mut components, children)?;
        Ok(components)
    }

    fn check_root(&self, root: FieldRef<'_>) -> Result<(), Malformed> {
        if let Some(owner) = self.non_null_value(root, "ownerRef")? {
            return Err(self.malformed(
                &format!("{ROOT_FIELD}.ownerRef"),
                &shown(owner),
                "nothing",
            ));
        }
        if self.read_object(root, "statusDefinition")?.is_none() {
            let field = format!("{ROOT_FIELD}.statusDefinition");
            return Err(self.malformed(&field, "", "a status definition"));
        }
        Ok(())
    }

    /// Sets the parent of each child component; rejects unknown parents and cycles.
    fn link_parents(
        &self,
        components: &mut [Component],
        children: &[Value],
    ) -> Result<(), Malformed> {
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN_FIELD}[{position}]");
            let owner = self.read_text(FieldRef { value: of, path: &path }, "ownerRef")?;
            let parent = components.iter().position(|component| *component.name == *owner);
            let field = format!("{path}.ownerRef");
            components[position + 1].parent =
                Some(parent.ok_or_else(|| self.malformed(&field, owner, EXPECTED_PARENT))?);
        }
        for start in 1..components.len() {
            let above = std::iter::successors(Some(start), |at| components[*at].parent);
            if above.take(components.len() + 1).count() > components.len() {
                let field = format!("{CHILDREN_FIELD}[{}].ownerRef", start - 1);
                return Err(self.malformed(&field, "a cycle", EXPECTED_PARENT));
            }
        }
        Ok(())
    }

    fn parse_component(&self, target: FieldRef<'_>) -> Result<Component, Malformed> {
        let path = target.path;
        let Some(called) = self.read_name(target, "name")? else {
            return Err(self.malformed(&format!("{path}.name"), "", EXPECTED_NAME));
        };
        let mut specs = 0;
        for spec in ["podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition"] {
            specs += usize::from(
                self.non_null_value(target, &format!("specDefinition.{spec}"))?.is_some(),
            );
        }
        if specs > 1 {
            let field = format!("{path}.specDefinition");
            return Err(self.malformed(&field, "several pod definitions", "one"));
        }
        let instances = self.optional_expression(target, "instanceIdPath")?;
        let of_instance = "podSelector.componentInstanceSelector";
        let instance_of_pod = self.required_expression(target, of_instance, "idPath")?;
        let missing = match (&instances, &instance_of_pod) {
            (Some(_), None) => Some((of_instance, "an idPath, because instanceIdPath is set")),
            (None, Some(_)) => Some((
                "instanceIdPath",
                "a jq expression, because podSelector.componentInstanceSelector is set",
            )),
            (Some(_), Some(_)) | (None, None) => None,
        };
        if let Some((field, allowed)) = missing {
            return Err(self.malformed(&format!("{path}.{field}"), "", allowed));
        }
        Ok(Component {
            name: called,
            parent: None,
            has_pods: specs > 0,
            scale: self.parse_scale(target)?,
            instances,
            selector: self.parse_selector(target)?,
            instance_of_pod,
        })
    }

    fn parse_scale(&self, target: FieldRef<'_>) -> Result<Option<Scale>, Malformed> {
        if self.read_object(target, "scaleDefinition")?.is_none() {
            return Ok(None);
        }
        Ok(Some(Scale {
            field: self.field_with_karta_name(&format!("{}.scaleDefinition", target.path)),
            replicas: self.optional_expression(target, "scaleDefinition.replicasPath")?,
            min_replicas: self.optional_expression(target, "scaleDefinition.minReplicasPath")?,
            max_replicas: self.optional_expression(target, "scaleDefinition.maxReplicasPath")?,
        }))
    }

    fn parse_selector(&self, target: FieldRef<'_>) -> Result<Option<Selector>, Malformed> {
        let of_type = "podSelector.componentTypeSelector";
        let Some(key) = self.required_expression(target, of_type, "keyPath")? else {
            return Ok(None);
        };
        let value = self.typed_value(
            target,
            &format!("{of_type}.value"),
            as_string_value,
            EXPECTED_STRING,
        )?;
        Ok(Some(match value {
            None => Selector::Exists(key),
            // Concatenated as in KAI, without regard to the precedence of operators in the key
            // path.
            Some(value) => {
                let field = format!("{of_type}.keyPath");
                let text = format!("{} == {value}", self.read_text(target, &field)?);
                let field = self.field_with_karta_name(&format!("{}.{field}", target.path));
                Selector::IsTrue(Expression::parse(field, &text)?)
            }
        }))
    }

    /// The expression in a field; `None` if it is missing.
    fn optional_expression(
        &self,
        target: FieldRef<'_>,
        field: &str,
    ) -> Result<Option<Expression>, Malformed> {
        let found = self.non_null_value(target, field)?;
        found.map(|found| self.parse_expression(&join_path(target.path, field), found)).transpose()
    }

    /// The required expression in a field of an optional object; `None` if the object is missing.
    fn required_expression(
        &self,
        target: FieldRef<'_>,
        object: &str,
        field: &str,
    ) -> Result<Option<Expression>, Malformed> {
        if self.read_object(target, object)?.is_none() {
            return Ok(None);
        }
        let field = join_path(object, field);
        let expression = self.optional_expression(target, &field)?;
        let missing = || self.malformed(&join_path(target.path, &field), "", EXPECTED_EXPRESSION);
        expression.ok_or_else(missing).map(Some)
    }

    fn parse_expression(&self, path: &str, found: &Value) -> Result<Expression, Malformed> {
        let Some(text) = found.as_str() else {
            return Err(self.malformed(path, &shown(found), EXPECTED_EXPRESSION));
        };
        Expression::parse(self.field_with_karta_name(path), text)
    }

    fn parse_gang(&self, components: &[Component]) -> Result<Gang, Malformed> {
        let gang = self.read_object(self.root_field(), GANG_FIELD)?.unwrap_or(&Value::Null);
        let gang = FieldRef { value: gang, path: GANG_FIELD };
        let members = self.parse_members(gang, components)?;
        let Some(group) = self.read_object(gang, "podGroup")? else {
            return Ok(Gang::GroupedByKeys(members));
        };
        // As in KAI errors in this section are reported on the pods to be grouped, not on the
        // Karta.
        let path = format!("{GANG_FIELD}.podGroup");
        let group = self.parse_group(FieldRef { value: group, path: &path }, components);
        Ok(group.unwrap_or_else(Gang::Invalid))
    }

    fn parse_group(
        &self,
        target: FieldRef<'_>,
        components: &[Component],
    ) -> Result<Gang, Malformed> {
        let Some(called) = self.read_name(target, "name")? else {
            return Err(self.malformed(&format!("{}.name", target.path), "", "a name suffix"));
        };
        let topology = self.parse_topology(target)?;
        let mut sub_groups: Vec<SubGroup> = Vec::new();
        for (position, of) in self.read_list(target, "subGroups")?.iter().enumerate() {
            let path = format!("{}.subGroups[{position}]", target.path);
            let component =
                self.component_index(FieldRef { value: of, path: &path }, components)?;
            let path_of_name = format!("{path}.componentName");
            if sub_groups.iter().any(|other| other.component == component) {
                return Err(self.malformed(
                    &path_of_name,
                    &components[component].name,
                    EXPECTED_OTHER_COMPONENT,
                ));
            }
            let topology = self.parse_topology(FieldRef { value: of, path: &path })?;
            sub_groups.push(SubGroup {
                field: self.field_with_karta_name(&path_of_name),
                component,
                topology,
            });
        }
        let field = self.field_with_karta_name(&format!("{}.name", target.path));
        Ok(Gang::SingleGroup { field, name: called, topology, sub_groups })
    }

    /// Index of the component that `componentName` names.
    fn component_index(
        &self,
        target: FieldRef<'_>,
        components: &[Component],
    ) -> Result<usize, Malformed> {
        let name = self.read_text(target, "componentName")?;
        let found = components.iter().position(|component| *component.name == *name);
        found.ok_or_else(|| {
            self.malformed(&format!("{}.componentName", target.path), name, EXPECTED_COMPONENT)
        })
    }

    fn parse_topology(
        &self,
        target: FieldRef<'_>,
    ) -> Result<Option<TopologyConstraint>, Malformed> {
        if self.read_object(target, "topology")?.is_none() {
            return Ok(None);
        }
        let Some(topology) = self.read_name(target, "topology.topologyName")? else {
            let field = format!("{}.topology.topologyName", target.path);
            return Err(self.malformed(&field, "", "the name of a Topology"));
        };
        let required = self.read_name(target, "topology.requiredTopologyLevel")?;
        let preferred = self.read_name(target, "topology.preferredTopologyLevel")?;
        if required.is_none() && preferred.is_none() {
            let field = format!("{}.topology", target.path);
            let allowed = "requiredTopologyLevel, preferredTopologyLevel or both";
            return Err(self.malformed(&field, "no level", allowed));
        }
        Ok(Some(TopologyConstraint { topology, required, preferred }))
    }

    fn parse_members(
        &self,
        gang: FieldRef<'_>,
        components: &[Component],
    ) -> Result<Vec<Member>, Malformed> {
        let mut all = Vec::new();
        for (at, of) in self.read_list(gang, "podGroups")?.iter().enumerate() {
            let path = format!("{GANG_FIELD}.podGroups[{at}]");
            let members = self.read_list(FieldRef { value: of, path: &path }, "members")?;
            if all.len() + members.len() > COMPONENTS_MAX {
                let found = format!("{} members", all.len() + members.len());
                return Err(self.malformed(&path, &found, "at most 256 in all groups"));
            }
            for (position, of) in members.iter().enumerate() {
                let path = format!("{path}.members[{position}]");
                all.push(self.parse_member(FieldRef { value: of, path: &path }, components)?);
            }
        }
        Ok(all)
    }

    fn parse_member(
        &self,
        target: FieldRef<'_>,
        components: &[Component],
    ) -> Result<Member, Malformed> {
        Ok(Member {
            component: self.component_index(target, components)?,
            keys: self.parse_expressions(target, "groupByKeyPaths")?,
            filters: self.parse_expressions(target, "filters")?,
            field: self.field_with_karta_name(&format!("{}.groupByKeyPaths", target.path)),
        })
    }

    /// The expressions in a list field.
    fn parse_expressions(
        &self,
        target: FieldRef<'_>,
        field: &str,
    ) -> Result<Vec<Expression>, Malformed> {
        let expressions = self.read_list(target, field)?.iter().enumerate();
        let path = |at: usize| format!("{}.{field}[{at}]", target.path);
        expressions.map(|(at, found)| self.parse_expression(&path(at), found)).collect()
    }
}

fn join_path(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The value if it is a string. Formatting the value, unlike its text, keeps the quotes.
fn as_string_value(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| value.is_string())
}

#[cfg(test)]
mod tests;
