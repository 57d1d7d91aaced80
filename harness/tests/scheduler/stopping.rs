//! A scheduler that is stopped ends, whatever the API server does meanwhile.

use std::{sync::Arc, time::Duration};

use futures::future::OptionFuture;
use http::{Method, Request};
use insta::assert_snapshot;
use schedlab_scheduler::{Binding, Clock};
use tokio::time::timeout;
use tower::{ServiceExt as _, service_fn};

use crate::lab::Lab;

impl Lab {
    /// A client whose bindings get no response.
    fn client_with_hanging_bindings(&self) -> kube::Client {
        let router = self.emulator.service();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let binds =
                request.method() == Method::POST && request.uri().path().ends_with("/binding");
            let (router, hang) = (router.clone(), binds.then(std::future::pending::<()>));
            async move {
                OptionFuture::from(hang).await;
                router.oneshot(request).await
            }
        });
        kube::Client::new(service, "default")
    }

    /// Runs a scheduler until `stop` completes; describes how it ends within a minute.
    async fn run_until(
        &self,
        client: kube::Client,
        stop: impl Future<Output = ()> + Send,
    ) -> String {
        let clock = self.emulator.clock().clone();
        let clock: Clock = Arc::new(move || clock.now());
        let run = schedlab_scheduler::run_until(client, self.config.clone(), clock, None, stop);
        match timeout(Duration::from_mins(1), run).await {
            Ok(Ok(())) => "it ends well".to_owned(),
            Ok(Err(error)) => format!("it ends with {error:#}"),
            Err(_) => "it does not end".to_owned(),
        }
    }
}

#[test]
fn a_scheduler_without_responses_ends_when_stopped() {
    Lab::run(async |mut lab| {
        let (client, disconnect) = lab.disconnectable_client();
        disconnect.send(true).unwrap();
        assert_eq!(lab.run_until(client.clone(), lab.advance(5)).await, "it ends well");
        lab.config.binding = Binding::Requests;
        assert_eq!(lab.run_until(client.clone(), lab.advance(5)).await, "it ends well");
        lab.stop_after_one_cycle();
        assert_eq!(lab.run_until(client, lab.advance(5)).await, "it ends well");
    });
}

#[test]
fn a_single_cycle_ends_when_stopped_while_it_binds() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", 1, 1);
        lab.config.binding = Binding::Requests;
        lab.stop_after_one_cycle();
        let client = lab.client_with_hanging_bindings();
        assert_eq!(lab.run_until(client, lab.advance(5)).await, "it ends well");
        assert_eq!(
            lab.list("scheduling.run.ai", "bindrequests").len(),
            1,
            "the binder had a request to carry out"
        );
    });
}

#[test]
fn stopping_after_the_api_server_is_no_failure() {
    Lab::run(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("q", 0, -1);
        let (client, disconnect) = lab.disconnectable_client();
        let status = lab.config.progress.subscribe();
        let stop = async {
            lab.advance(5).await;
            lab.job("train", "q", 1, 1);
            lab.advance(5).await;
            disconnect.send(true).unwrap();
        };
        assert_eq!(lab.run_until(client, stop).await, "it ends well");
        assert_snapshot!(status.borrow().last_failure.clone().unwrap(), @"cannot write the last minute of the usage history: no response in time: deadline has elapsed");
    });
}
