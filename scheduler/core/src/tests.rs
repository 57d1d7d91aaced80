//! Tables of whole cycles, by area.

mod gangs;
mod kube;
mod limits;
mod placement;
