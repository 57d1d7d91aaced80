//! What stands in a Karta. What KAI's validation refuses is refused; what does not matter to groups
//! of pods is not looked at.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    Described,
    ask::Asked,
    tree::{Component, Gang, Karta, Member, Scale, Selector, SubGroup},
};
use crate::parse::{Malformed, at, list, name, text};

const ROOT: &str = "spec.structureDefinition.rootComponent";
const CHILDREN: &str = "spec.structureDefinition.childComponents";
const GANG: &str = "spec.optimizationInstructions.gangScheduling";
pub(super) const KIND: &str = "spec.structureDefinition.rootComponent.kind";
/// More are a mistake.
const COMPONENTS_MAX: usize = 256;

const NAME: &str = "a name that no other component has";
const COMPONENT: &str = "the name of a component";
const PARENT: &str = "the name of another component that leads to the root";

/// The kind whose pods a Karta groups, if it groups any and has the labels by which it is found.
pub(super) fn described(object: &Value) -> Option<Described> {
    if at(object, "/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let gang = at(object, "/spec/optimizationInstructions/gangScheduling")?;
    if is_absent(gang, "/podGroup") && list(gang, "/podGroups").is_empty() {
        return None;
    }
    let labels = at(object, "/metadata/labels")?;
    let part = |part: &str| {
        let pointer = format!("/spec/structureDefinition/rootComponent/kind/{part}");
        let said = text(object, &pointer).unwrap_or_default();
        (labels.get(format!("run.ai/karta-{part}").as_str())?.as_str() == Some(said))
            .then_some(said)
    };
    let (group, version, kind) = (part("group")?, part("version")?, part("kind")?);
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some((api_version.into(), kind.into()))
}

fn is_absent(of: &Value, pointer: &str) -> bool {
    at(of, pointer).is_none_or(Value::is_null)
}

pub(super) fn karta(object: &Value) -> Result<Karta, Malformed> {
    let called = name(object, "/metadata/name").unwrap_or_default();
    let reader = Reader { object, called: &called };
    let components = reader.components()?;
    let gang = reader.gang(&components)?;
    Ok(Karta { called, components, gang })
}

struct Reader<'a> {
    object: &'a Value,
    called: &'a Name,
}

/// One object in a Karta, and the path of its field.
#[derive(Clone, Copy)]
struct Place<'a> {
    of: &'a Value,
    path: &'a str,
}

impl Reader<'_> {
    /// A field of this Karta.
    fn field(&self, path: &str) -> String {
        format!("{path} of Karta {}", self.called)
    }

    fn wrong(&self, path: &str, found: &str, allowed: &'static str) -> Malformed {
        Malformed::new(self.field(path), if found.is_empty() { "nothing" } else { found }, allowed)
    }

    /// The root, then its children in their order.
    fn components(&self) -> Result<Vec<Component>, Malformed> {
        let root =
            at(self.object, "/spec/structureDefinition/rootComponent").unwrap_or(&Value::Null);
        let children = list(self.object, "/spec/structureDefinition/childComponents");
        if children.len() >= COMPONENTS_MAX {
            let found = format!("{} components", children.len());
            return Err(self.wrong(CHILDREN, &found, "at most 255 components"));
        }
        self.root(root)?;
        let mut components = vec![self.component(Place { of: root, path: ROOT })?];
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN}[{position}]");
            let component = self.component(Place { of, path: &path })?;
            if components.iter().any(|other| other.name == component.name) {
                return Err(self.wrong(&format!("{path}.name"), &component.name, NAME));
            }
            components.push(component);
        }
        self.parents(&mut components, children)?;
        Ok(components)
    }

    fn root(&self, root: &Value) -> Result<(), Malformed> {
        let part = |part| text(root, part).unwrap_or_default();
        // Pods are the only kind of the group without a name.
        let has_group = !part("/kind/group").is_empty() || part("/kind/kind") == "Pod";
        if !has_group || part("/kind/version").is_empty() || part("/kind/kind").is_empty() {
            return Err(self.wrong(KIND, "a part of it", "group, version and kind"));
        }
        if !is_absent(root, "/ownerRef") {
            let found = root["ownerRef"].to_string();
            return Err(self.wrong(&format!("{ROOT}.ownerRef"), &found, "nothing"));
        }
        if is_absent(root, "/statusDefinition") {
            let field = format!("{ROOT}.statusDefinition");
            return Err(self.wrong(&field, "", "a definition of its status"));
        }
        Ok(())
    }

    /// Which component owns each child. All lead to the root.
    fn parents(&self, components: &mut [Component], children: &[Value]) -> Result<(), Malformed> {
        for (position, child) in children.iter().enumerate() {
            let owner = text(child, "/ownerRef").unwrap_or_default();
            let parent = components.iter().position(|component| *component.name == *owner);
            let field = format!("{CHILDREN}[{position}].ownerRef");
            components[position + 1].parent =
                Some(parent.ok_or_else(|| self.wrong(&field, owner, PARENT))?);
        }
        for start in 1..components.len() {
            let above = std::iter::successors(Some(start), |at| components[*at].parent);
            if above.take(components.len() + 1).count() > components.len() {
                let field = format!("{CHILDREN}[{}].ownerRef", start - 1);
                return Err(self.wrong(&field, "a circle", PARENT));
            }
        }
        Ok(())
    }

    fn component(&self, place: Place<'_>) -> Result<Component, Malformed> {
        let Place { of, path } = place;
        let Some(called) = name(of, "/name") else {
            return Err(self.wrong(&format!("{path}.name"), "", NAME));
        };
        let specs = ["podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition"];
        let specs =
            specs.iter().filter(|it| !is_absent(of, &format!("/specDefinition/{it}"))).count();
        if specs > 1 {
            let field = format!("{path}.specDefinition");
            return Err(self.wrong(&field, "several definitions of pods", "one"));
        }
        let instances = self.asked(place, "instanceIdPath")?;
        let instance_of_pod = self.asked(place, "podSelector.componentInstanceSelector.idPath")?;
        let has_instances = !is_absent(of, "/podSelector/componentInstanceSelector");
        if instances.is_some() != has_instances {
            let (field, allowed) = if has_instances {
                ("instanceIdPath", "a jq expression beside podSelector.componentInstanceSelector")
            } else {
                ("podSelector.componentInstanceSelector", "an idPath beside instanceIdPath")
            };
            return Err(self.wrong(&format!("{path}.{field}"), "", allowed));
        }
        Ok(Component {
            name: called,
            parent: None,
            has_pods: specs > 0,
            scale: self.scale(place)?,
            instances,
            selector: self.selector(place)?,
            instance_of_pod,
        })
    }

    fn scale(&self, place: Place<'_>) -> Result<Option<Scale>, Malformed> {
        if is_absent(place.of, "/scaleDefinition") {
            return Ok(None);
        }
        Ok(Some(Scale {
            field: self.field(&format!("{}.scaleDefinition", place.path)),
            replicas: self.asked(place, "scaleDefinition.replicasPath")?,
            least: self.asked(place, "scaleDefinition.minReplicasPath")?,
            most: self.asked(place, "scaleDefinition.maxReplicasPath")?,
        }))
    }

    fn selector(&self, place: Place<'_>) -> Result<Option<Selector>, Malformed> {
        let Some(selector) = at(place.of, "/podSelector/componentTypeSelector") else {
            return Ok(None);
        };
        let field = "podSelector.componentTypeSelector.keyPath";
        let Some(key) = self.asked(place, field)? else { return Ok(None) };
        Ok(Some(match selector.get("value").filter(|value| !value.is_null()) {
            None => Selector::Has(key),
            // As KAI has it, whatever binds more loosely than the comparison.
            Some(value) => {
                let path = text(selector, "/keyPath").unwrap_or_default();
                let field = self.field(&format!("{}.{field}", place.path));
                Selector::Is(Asked::read(field, &format!("{path} == {value}"))?)
            }
        }))
    }

    /// The expression in a field, if there is one.
    fn asked(&self, place: Place<'_>, field: &str) -> Result<Option<Asked>, Malformed> {
        let pointer = format!("/{}", field.replace('.', "/"));
        let found = at(place.of, &pointer).filter(|found| !found.is_null());
        found.map(|found| self.expression(&format!("{}.{field}", place.path), found)).transpose()
    }

    fn expression(&self, path: &str, found: &Value) -> Result<Asked, Malformed> {
        let Some(text) = found.as_str() else {
            return Err(self.wrong(path, &found.to_string(), "a jq expression"));
        };
        Asked::read(self.field(path), text)
    }

    fn gang(&self, components: &[Component]) -> Result<Gang, Malformed> {
        let gang = at(self.object, "/spec/optimizationInstructions/gangScheduling");
        let gang = gang.unwrap_or(&Value::Null);
        let members = self.members(gang, components)?;
        if is_absent(gang, "/podGroup") {
            return Ok(Gang::Members(members));
        }
        // As in KAI whoever is to be grouped is told of what is wrong there.
        let path = format!("{GANG}.podGroup");
        let group = self.group(Place { of: &gang["podGroup"], path: &path }, components);
        Ok(group.unwrap_or_else(Gang::Unusable))
    }

    fn group(&self, place: Place<'_>, components: &[Component]) -> Result<Gang, Malformed> {
        let Some(called) = name(place.of, "/name") else {
            return Err(self.wrong(&format!("{}.name", place.path), "", "a part of a name"));
        };
        let topology = self.topology(place)?;
        let mut sub_groups = Vec::new();
        for (position, of) in list(place.of, "/subGroups").iter().enumerate() {
            let path = format!("{}.subGroups[{position}]", place.path);
            let component = self.named(Place { of, path: &path }, components)?;
            let topology = self.topology(Place { of, path: &path })?;
            let field = self.field(&format!("{path}.componentName"));
            sub_groups.push(SubGroup { field, component, topology });
        }
        let field = self.field(&format!("{}.name", place.path));
        Ok(Gang::Group { field, name: called, topology, sub_groups })
    }

    /// The component that `componentName` names.
    fn named(&self, place: Place<'_>, components: &[Component]) -> Result<usize, Malformed> {
        let named = text(place.of, "/componentName").unwrap_or_default();
        let found = components.iter().position(|component| *component.name == *named);
        found.ok_or_else(|| self.wrong(&format!("{}.componentName", place.path), named, COMPONENT))
    }

    fn topology(&self, place: Place<'_>) -> Result<Option<TopologyConstraint>, Malformed> {
        let Some(of) = at(place.of, "/topology").filter(|of| !of.is_null()) else {
            return Ok(None);
        };
        let Some(topology) = name(of, "/topologyName") else {
            let field = format!("{}.topology.topologyName", place.path);
            return Err(self.wrong(&field, "", "the name of a Topology"));
        };
        let required = name(of, "/requiredTopologyLevel");
        let preferred = name(of, "/preferredTopologyLevel");
        if required.is_none() && preferred.is_none() {
            let field = format!("{}.topology", place.path);
            let allowed = "requiredTopologyLevel, preferredTopologyLevel or both";
            return Err(self.wrong(&field, "no level", allowed));
        }
        Ok(Some(TopologyConstraint { topology, required, preferred }))
    }

    fn members(&self, gang: &Value, components: &[Component]) -> Result<Vec<Member>, Malformed> {
        let mut all = Vec::new();
        for (at, group) in list(gang, "/podGroups").iter().enumerate() {
            for (position, of) in list(group, "/members").iter().enumerate() {
                let path = format!("{GANG}.podGroups[{at}].members[{position}]");
                all.push(self.member(Place { of, path: &path }, components)?);
            }
        }
        Ok(all)
    }

    fn member(&self, place: Place<'_>, components: &[Component]) -> Result<Member, Malformed> {
        Ok(Member {
            component: self.named(place, components)?,
            keys: self.each(place, "groupByKeyPaths")?,
            filters: self.each(place, "filters")?,
            field: self.field(&format!("{}.groupByKeyPaths", place.path)),
        })
    }

    /// The expressions in a list.
    fn each(&self, place: Place<'_>, field: &str) -> Result<Vec<Asked>, Malformed> {
        let expressions = list(place.of, &format!("/{field}")).iter().enumerate();
        let path = |at: usize| format!("{}.{field}[{at}]", place.path);
        expressions.map(|(at, found)| self.expression(&path(at), found)).collect()
    }
}
