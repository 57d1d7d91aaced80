//! A network namespace of its own for a program that listens on a fixed port, so that several
//! instances run on one machine.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use anyhow::{Context as _, anyhow};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use rustix::thread::UnshareFlags;

/// The message that sets the flag `IFF_UP` of the loopback interface: a header (length, type
/// `RTM_NEWLINK`, flags `NLM_F_REQUEST` and `NLM_F_ACK`, number, port), and an `ifinfomsg` (family,
/// type, index, flags, changed flags).
fn loopback_up_message() -> Vec<u8> {
    const LENGTH: u32 = 32;
    const NEW_LINK: u16 = 16;
    const REQUEST_WITH_ACKNOWLEDGEMENT: u16 = 1 | 4;
    const LOOPBACK_INDEX: i32 = 1;
    const UP: u32 = 1;
    let mut message = LENGTH.to_ne_bytes().to_vec();
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ACKNOWLEDGEMENT.to_ne_bytes());
    message.extend([0; 12]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message
}

/// Runs `start` in a new network namespace with a loopback interface, with a socket there that
/// listens on `port`. Processes that `start` starts stay in the namespace, and so does the socket,
/// which this process can serve. `None` if this process may not create namespaces.
///
/// # Errors
/// The namespace cannot be set up, or `start` fails.
pub fn in_own_network<T: Send>(
    port: u16,
    start: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<Option<(T, TcpListener)>> {
    let work = || {
        match enter_new_namespace() {
            Ok(()) => {}
            Err(Errno::PERM) => return Ok(None),
            Err(error) => return Err(error).context("cannot create a network namespace"),
        }
        bring_loopback_up().context("cannot use the loopback interface of a network namespace")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .context("cannot listen in a network namespace")?;
        listener.set_nonblocking(true).context("cannot use a socket")?;
        Ok(Some((start()?, listener)))
    };
    // Only this thread enters the namespace.
    let ended = thread::scope(|scope| scope.spawn(work).join());
    ended.map_err(|_| anyhow!("a thread in a network namespace panicked"))?
}

#[expect(deprecated, reason = "the other function is unsafe for flags that are not used here")]
fn enter_new_namespace() -> Result<(), Errno> {
    rustix::thread::unshare(UnshareFlags::NEWNET)
}

fn bring_loopback_up() -> anyhow::Result<()> {
    let kernel = SocketAddrNetlink::new(0, 0);
    // Protocol 0 of netlink is that of interfaces.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &loopback_up_message(), SendFlags::empty(), &kernel)?;
    // The answer is a header and an error number, which is 0 or negative.
    let mut answer = [0; 64];
    let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    let number = answer.get(16..20).filter(|_| length >= 20).context("the answer is too short")?;
    let number = i32::from_ne_bytes(number.try_into()?);
    anyhow::ensure!(number == 0, "{}", std::io::Error::from_raw_os_error(-number));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_port_that_is_taken_outside_is_free_in_an_own_network() {
        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = outside.local_addr().unwrap().port();
        let entered = in_own_network(port, || {
            let text = std::fs::read_link("/proc/thread-self/ns/net")?;
            let child = Command::new("readlink").arg("/proc/self/ns/net").output()?;
            assert_eq!(String::from_utf8(child.stdout)?.trim(), text.display().to_string());
            assert_ne!(text, std::fs::read_link("/proc/self/ns/net")?, "this process stays");
            TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            Ok(())
        });
        if let Some(((), listener)) = entered.unwrap() {
            listener.set_nonblocking(false).unwrap();
            assert!(listener.accept().is_ok(), "this process serves the socket");
        }
    }
}
