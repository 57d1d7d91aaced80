//! A scheduler that is told to end does so, whatever the API server does meanwhile.

use std::{sync::Arc, time::Duration};

use futures::future::OptionFuture;
use http::{Method, Request};
use insta::assert_snapshot;
use schedlab_scheduler::{Binding, Clock};
use tokio::time::timeout;
use tower::{ServiceExt as _, service_fn};

use crate::lab::Lab;

impl Lab {
    /// A client whose bindings are never answered.
    fn client_that_waits_for_bindings(&self) -> kube::Client {
        let router = self.emulator.service();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let binds =
                request.method() == Method::POST && request.uri().path().ends_with("/binding");
            let (router, lost) = (router.clone(), binds.then(std::future::pending::<()>));
            async move {
                OptionFuture::from(lost).await;
                router.oneshot(request).await
            }
        });
        kube::Client::new(service, "default")
    }

    /// How a scheduler ends that is told so by `stop`.
    async fn end_of(&self, client: kube::Client, stop: impl Future<Output = ()> + Send) -> String {
        let clock = self.emulator.clock().clone();
        let clock = (Arc::new(move || clock.now()) as Clock, None);
        let run = schedlab_scheduler::run_until(client, self.config.clone(), clock, stop);
        match timeout(Duration::from_mins(1), run).await {
            Ok(Ok(())) => "it ends well".to_owned(),
            Ok(Err(error)) => format!("it ends with {error:#}"),
            Err(_) => "it does not end".to_owned(),
        }
    }
}

#[test]
fn one_that_is_never_answered_ends_when_told_to() {
    Lab::tell(async |mut lab| {
        let (client, plug) = lab.client_with_a_plug();
        plug.send(true).unwrap();
        assert_eq!(lab.end_of(client.clone(), lab.pass(5)).await, "it ends well");
        lab.config.binding = Binding::Requests;
        assert_eq!(lab.end_of(client.clone(), lab.pass(5)).await, "it ends well");
        lab.end_after_one_cycle();
        assert_eq!(lab.end_of(client, lab.pass(5)).await, "it ends well");
    });
}

#[test]
fn a_single_cycle_ends_when_told_to_while_it_binds() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", (1, 1));
        lab.config.binding = Binding::Requests;
        lab.end_after_one_cycle();
        let client = lab.client_that_waits_for_bindings();
        assert_eq!(lab.end_of(client, lab.pass(5)).await, "it ends well");
        assert_eq!(
            lab.list("scheduling.run.ai", "bindrequests").len(),
            1,
            "it had one to carry out"
        );
    });
}

#[test]
fn an_api_server_that_goes_first_makes_the_end_no_failure() {
    Lab::tell(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("q", 0, -1);
        let (client, plug) = lab.client_with_a_plug();
        let status = lab.config.progress.subscribe();
        let stop = async {
            lab.pass(5).await;
            lab.job("train", "q", (1, 1));
            lab.pass(5).await;
            plug.send(true).unwrap();
        };
        assert_eq!(lab.end_of(client, stop).await, "it ends well");
        assert_snapshot!(status.borrow().last_failure.clone().unwrap(), @"cannot write the last minute of the usage history: no response in time: deadline has elapsed");
    });
}
