//! From the command line to a process that serves.

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::mpsc;
use tollgate_config::Config;
use tollgate_cost::Sheet;
use tollgate_edge::{ConsoleFiles, Edge, Listening, Live, Sockets, address_name};
use tollgate_keys::Ring;
use tollgate_tls::{Clock, Resumption};

use super::control::Control;
use super::dearer::Dearer;
use super::drive::{Drive, Driven};
use super::facts::Tallies;
use super::handover::{Inheritance, Program};
use super::observer::{Observer, now_seconds};
use super::setup::{self, Origin};
use super::{Failure, Parent, demo, heap, notify, watch};
use crate::{ServeArguments, say};

impl Parent {
    pub(super) async fn start(
        arguments: ServeArguments,
        program: Program,
    ) -> Result<Self, Failure> {
        let tallies = Tallies::of(now_seconds());
        tollgate_edge::raise_descriptor_limit();
        let drives = arguments.drive;
        let sheet = arguments.sheet.as_deref().map(sheet).transpose()?;
        let origin = origin(arguments).await?;
        let color = say::error_colors();
        let (read, warnings) = setup::read(&origin, color)?;
        let inheritance = Inheritance::receive()
            .map_err(|error| Failure::Broke(format!("hand-over from the old process: {error}")))?;
        let ring = first_ring(inheritance.as_ref(), &read.config)?;
        let clock = Clock::new(setup::now());
        let resumption = Resumption::new(
            clock.clone(),
            setup::resumption_settings(&read.config.resumption),
            &ring,
        );
        let built = setup::build(&origin, &read, warnings, &resumption, color)?;
        say::plain_error(&built.warnings);
        let live = resolved(built.live).await;
        let journal = setup::journal(&read.config)?;
        let (sockets, inherited_console, successor) = inherited(inheritance)?;
        let replaces = successor.is_some();
        let observer = Observer::new(setup::alarm_settings(&read.config.alarms), sheet);
        let config = read.config;
        let edge = Edge::start(&config, live, journal.as_ref(), sockets, heap::of_threads())
            .map_err(|error| Failure::Broke(error.to_string()))?;
        let (control_sender, control_requests) = mpsc::unbounded_channel();
        let (health_sender, health_changes) = mpsc::unbounded_channel();
        let health = watch(&edge, &health_sender);
        let mut parent = Self {
            program,
            origin,
            config,
            edge,
            clock,
            resumption,
            ring,
            journal,
            dropped_before: 0,
            observer: Rc::new(RefCell::new(observer)),
            drive: None,
            dearer: Dearer::default(),
            webhook: None,
            console: None,
            control: None,
            control_requests,
            control_sender,
            health,
            health_changes,
            health_sender,
            tallies,
            replaced: false,
        };
        parent.open_console(built.console, inherited_console)?;
        parent.listen_for_alarms(built.webhook);
        parent.open_control(replaces);
        // Whatever is counted from now on has something to be set against.
        parent.tick().await;
        if drives {
            parent.drive()?;
        }
        parent.announce();
        if let Some(inheritance) = successor {
            inheritance.ready();
        }
        Ok(parent)
    }

    fn open_console(
        &mut self,
        files: Option<ConsoleFiles>,
        inherited: Option<TcpListener>,
    ) -> Result<(), Failure> {
        let console = self
            .next_console(&self.config, files, inherited)
            .map_err(|error| Failure::Broke(error.to_string()))?;
        self.adopt_console(console);
        Ok(())
    }

    /// Without a control socket everything works but `tollgate reload`; SIGHUP does the same.
    pub(super) fn open_control(&mut self, replace: bool) {
        let Some(path) = self
            .config
            .control
            .as_ref()
            .map(|control| control.value.clone())
        else {
            self.control = None;
            return;
        };
        match Control::listen(&path, replace) {
            Ok(mut control) => {
                control.answer(self.control_sender.clone());
                self.control = Some(control);
            }
            Err(error) => say::warning(&format!(
                "control socket {}: {error}; tollgate reload cannot reach this process, SIGHUP can \
                 (set control: to a path of its own, or to off)",
                path.display()
            )),
        }
    }

    /// Lets the demo's own clients come.
    fn drive(&mut self) -> Result<(), Failure> {
        let (Origin::Demo(demo), Some(site)) = (&self.origin, self.config.sites.first()) else {
            return Ok(());
        };
        let [https, tcp] = demo::ADDRESSES.map(SocketAddr::from);
        let driven = Driven {
            https,
            tcp,
            ring: self.ring.clone(),
            site: tollgate_edge::site_id(site),
            certificate: Arc::clone(demo.certificate()),
        };
        let drive = Drive::start(driven)
            .map_err(|error| Failure::Broke(format!("the demo's own load: {error}")))?;
        self.drive = Some(drive);
        Ok(())
    }

    pub(super) fn announce(&self) {
        let allowed = self.edge.connections_allowed();
        let demo = matches!(self.origin, Origin::Demo(_));
        if allowed < self.config.limits.connections && !demo {
            say::warning(&format!(
                "file descriptors allow {allowed} connections at a time, limits: connections says {}; \
                 raise LimitNOFILE (systemd) or ulimit -n",
                self.config.limits.connections
            ));
        }
        for (address, sockets) in self.edge.sockets() {
            say::note(&format!("listening on {}", bound_name(address, sockets)));
        }
        if let Some(console) = &self.console {
            let token = match console.wants_token() {
                true => ", for those who show the token",
                false => "",
            };
            say::note(&format!("console on {}{token}", console.url()));
        }
        say::note(&format!(
            "ready, {} workers, configuration {}",
            self.edge.workers(),
            self.edge.live().hash
        ));
        if demo {
            say::result(demo::TRY_NEXT);
            say::result(match self.drive {
                None => demo::DRIVE_IT,
                Some(_) => demo::DRIVEN,
            });
            say::result(demo::HOW_TO_END);
        }
        notify::ready(allowed);
    }
}

async fn origin(arguments: ServeArguments) -> Result<Origin, Failure> {
    if let Some(path) = arguments.config {
        return Ok(Origin::File(path));
    }
    let backend = demo::backend()
        .await
        .map_err(|error| Failure::Broke(format!("demo backend: {error}")))?;
    demo::Demo::new(backend, setup::now())
        .map(Origin::Demo)
        .map_err(|error| Failure::Broke(error.to_string()))
}

/// The ticket keys of the process that this one replaces, else fresh ones.
fn first_ring(inheritance: Option<&Inheritance>, config: &Config) -> Result<Ring, Failure> {
    let inherited = inheritance.and_then(|inherited| inherited.ring.clone());
    Ok(match inherited {
        Some(ring) => ring.with_lifetimes(setup::lifetimes(&config.resumption)?),
        None => setup::fresh_ring(&config.resumption)?,
    })
}

/// Reads what `tollgate bench` measured.
fn sheet(path: &Path) -> Result<Sheet, Failure> {
    let wrong = |reason: String| {
        Failure::Input(format!(
            "tollgate: error: sheet {}: {reason}; tollgate bench writes one, sheet.json\n",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Sheet::from_json(&text).map_err(|error| wrong(error.to_string()))
}

/// Looks up the backends' host names on a thread that may wait.
pub(super) async fn resolved(live: Live) -> Live {
    if live.hosts().next().is_none() {
        return live;
    }
    let looked_up = tokio::task::spawn_blocking(move || {
        let failed = tollgate_edge::resolve(&live);
        (live, failed)
    });
    match looked_up.await {
        Ok((live, failed)) => {
            for name in failed {
                say::warning(&format!(
                    "backend host name {name}; requests for it fail until it resolves"
                ));
            }
            live
        }
        // The closure neither panics nor is cancelled; if it were, there is nothing to serve with.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

type Inherited = (Sockets, Option<std::net::TcpListener>, Option<Inheritance>);

/// Sockets of the process that this one replaces, else those that systemd handed in.
fn inherited(inheritance: Option<Inheritance>) -> Result<Inherited, Failure> {
    if let Some(mut inheritance) = inheritance {
        let sockets = std::mem::take(&mut inheritance.sockets);
        let console = inheritance.console.take();
        return Ok((sockets, console, Some(inheritance)));
    }
    let mut given = listenfd::ListenFd::from_env();
    let mut sockets = Sockets::new();
    for number in 0..given.len() {
        let taken = match given.take_tcp_listener(number) {
            Ok(Some(tcp)) => Ok(std::os::fd::OwnedFd::from(tcp)),
            _ => match given.take_unix_listener(number) {
                Ok(Some(unix)) => Ok(std::os::fd::OwnedFd::from(unix)),
                Ok(None) => continue,
                Err(error) => Err(error),
            },
        };
        let (address, listening) = taken.and_then(Listening::adopt).map_err(|error| {
            Failure::Broke(format!("socket {number} handed in by systemd cannot be used: {error}; it must be a stream socket that listens"))
        })?;
        say::note(&format!("socket for {} handed in", address_name(&address)));
        sockets.entry(address).or_default().push(listening);
    }
    Ok((sockets, None, None))
}

/// The address as configured, or as bound where the configuration says port 0.
fn bound_name(address: &tollgate_config::ListenAddress, sockets: &[Listening]) -> String {
    match (address, sockets.first()) {
        (tollgate_config::ListenAddress::Ip(ip), Some(Listening::Tcp(listener)))
            if ip.port() == 0 =>
        {
            listener
                .local_addr()
                .map_or_else(|_| ip.to_string(), |bound: SocketAddr| bound.to_string())
        }
        _ => address_name(address),
    }
}
