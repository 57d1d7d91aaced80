//! The arguments of `schedlab demo`.

use clap::Args;

/// Arguments of `schedlab demo`.
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// Run all features afterwards.
    #[arg(long)]
    pub suite: bool,
}
