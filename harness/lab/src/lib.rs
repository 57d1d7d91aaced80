//! The lab: guided exercises on an emulated cluster. A lesson is one Markdown file; its claims are
//! `Then` steps of a feature, checked on the learner's own cluster while the learner works on it.
//!
//! The modules build on each other in this order: the commands of a solution ([`commands`]), jq
//! expressions over a cluster ([`expression`]), texts with their values ([`computed_text`]) and the parts of a Markdown file ([`markdown`]); the
//! lesson ([`lesson`]) and those of this program ([`catalogue`]); a cluster as expressions see it
//! ([`cluster_digest`]); how far a learner has come ([`record`]) and what a teacher gets
//! ([`evidence`], [`grade`]); a lesson that runs ([`session`]); a lesson that is played by its own
//! solution ([`rehearsal`]); the running lesson and its commands in other terminals ([`folder`],
//! [`server`]).

pub mod catalogue;
pub mod cluster_digest;
pub mod commands;
pub mod computed_text;
mod digest;
pub mod evidence;
pub mod expression;
pub mod folder;
pub mod grade;
pub mod lesson;
pub mod markdown;
mod prepared;
pub mod record;
pub mod rehearsal;
pub mod server;
pub mod session;
