//! A fleet behind one name: which nodes resume each other's tickets.

mod matrix;
mod text;

use std::collections::VecDeque;
use std::rc::Rc;

use serde::Serialize;
use tokio::task::{JoinSet, LocalSet};
use tollgate_terms::TlsVersion;
use tollgate_tls::client::Intent;

use super::{EarlyData, Endpoint, ProbeError, ProbeOptions, Prober};
use matrix::Matrix;

pub use matrix::Shown;

/// More nodes than this are not compared: the number of connections grows with its square.
pub const MOST_NODES: usize = 32;

/// Pairs that are tried at a time.
const AT_A_TIME: usize = 8;

/// What `--fleet` has found.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// Name that was sent to every node.
    pub name: String,
    /// The nodes, each with a letter.
    pub nodes: Vec<Node>,
    /// Nodes over [`MOST_NODES`] that were left out.
    pub left_out: usize,
    /// One matrix per version.
    pub matrices: Vec<Table>,
    /// What it means.
    pub verdict: String,
    /// What to do; empty when all is well.
    pub advice: Vec<String>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// `A` to `Z`, then `AA` and so on.
    pub node: String,
    /// Where it listens.
    pub endpoint: String,
    /// Why no handshake worked, in any version; `None` when one did.
    pub failure: Option<String>,
}

/// Who resumes whose tickets in one version.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// One row per node that gave the ticket, one column per node that it was shown to.
    pub shown: Vec<Vec<Shown>>,
    /// Nodes that resume each other's tickets, by their letters.
    pub groups: Vec<Vec<String>>,
    /// Share of returning clients that resume when each visit goes to any node, alike; 0 to 1.
    pub resumed_share: f64,
    /// Why there is no matrix: no node speaks this version.
    pub not_spoken: bool,
}

impl Fleet {
    /// Whether somebody should act: nodes that do not resume each other's tickets, or do not answer.
    pub fn has_findings(&self) -> bool {
        !self.advice.is_empty()
    }
}

/// Compares all nodes with each other: those in `options.endpoints`, or all addresses of the target.
///
/// Takes two connections per pair of nodes and version, a few at a time, without a request.
///
/// # Errors
/// When the question makes no sense or the name has no address. A node that fails says so in its place.
pub async fn compare(options: &ProbeOptions) -> Result<Fleet, ProbeError> {
    let mut endpoints = match options.endpoints.is_empty() {
        true => super::reach::resolve(&options.target.host, options.port()).await?,
        false => options.endpoints.clone(),
    };
    let left_out = endpoints.len().saturating_sub(MOST_NODES);
    endpoints.truncate(MOST_NODES);
    let versions = match options.version {
        Some(version) => vec![version],
        None => vec![TlsVersion::Tls13, TlsVersion::Tls12],
    };
    let mut failures: Vec<Option<String>> = vec![None; endpoints.len()];
    let mut matrices = Vec::new();
    for (number, version) in versions.into_iter().enumerate() {
        let comparison = Comparison::new(options, version)?;
        let reached = comparison.reach_all(&endpoints).await?;
        for (failure, reached) in failures.iter_mut().zip(&reached) {
            let failed = reached.as_ref().err().cloned();
            // A node is told of as failed only when every version did.
            *failure = match number {
                0 => failed,
                _ => failure.take().and(failed),
            };
        }
        let matrix = comparison.matrix(&endpoints, &reached).await?;
        matrices.push((version, matrix));
    }
    let nodes = endpoints.iter().zip(failures).enumerate();
    let nodes = nodes
        .map(|(number, (endpoint, failure))| Node {
            node: letters(number),
            endpoint: endpoint.to_string(),
            failure,
        })
        .collect();
    Ok(judged(options.name(), nodes, left_out, &matrices))
}

/// One version of one fleet.
struct Comparison {
    options: Rc<ProbeOptions>,
}

impl Comparison {
    fn new(options: &ProbeOptions, version: TlsVersion) -> Result<Self, ProbeError> {
        let mut options = options.clone();
        options.version = Some(version);
        options.early_data = EarlyData::Off;
        options.request = None;
        // What is wrong with the question shows here, before anything is connected.
        Prober::new(options.clone())?;
        Ok(Self {
            options: Rc::new(options),
        })
    }

    /// Whether a handshake with each node works at all.
    async fn reach_all(
        &self,
        endpoints: &[Endpoint],
    ) -> Result<Vec<Result<(), String>>, ProbeError> {
        let jobs = endpoints.iter().map(|endpoint| {
            let (options, endpoint) = (Rc::clone(&self.options), endpoint.clone());
            async move {
                let prober =
                    Prober::new(ProbeOptions::clone(&options)).map_err(|e| e.to_string())?;
                let connected = prober.connect(Intent::Full, &endpoint).await;
                connected.map(|_| ()).map_err(|error| error.to_string())
            }
        });
        Ok(some_at_a_time(jobs.collect()).await)
    }

    async fn matrix(
        &self,
        endpoints: &[Endpoint],
        reached: &[Result<(), String>],
    ) -> Result<Matrix, ProbeError> {
        let mut jobs = VecDeque::new();
        for (from, from_reached) in endpoints.iter().zip(reached) {
            for (to, to_reached) in endpoints.iter().zip(reached) {
                let options = Rc::clone(&self.options);
                let (from, to) = (from.clone(), to.clone());
                let works = from_reached.is_ok() && to_reached.is_ok();
                jobs.push_back(async move {
                    match works {
                        true => show_twice(&options, &from, &to).await,
                        false => Shown::Failed,
                    }
                });
            }
        }
        let cells = some_at_a_time(jobs).await;
        let rows = cells.chunks(endpoints.len().max(1));
        Ok(Matrix(rows.map(<[Shown]>::to_vec).collect()))
    }
}

/// Once, and once more where it might have been another node that answered.
async fn show_twice(options: &ProbeOptions, from: &Endpoint, to: &Endpoint) -> Shown {
    let first = show(options, from, to).await;
    let again = match first {
        Shown::Full => true,
        // A node that resumes its own tickets by luck is a balancer.
        Shown::Resumed => from == to,
        Shown::Sometimes | Shown::NoTicket | Shown::Failed => false,
    };
    if !again {
        return first;
    }
    match (first, show(options, from, to).await) {
        (Shown::Full, Shown::Resumed) | (Shown::Resumed, Shown::Full) => Shown::Sometimes,
        (first, _) => first,
    }
}

/// Takes a ticket from one node and shows it to another.
async fn show(options: &ProbeOptions, from: &Endpoint, to: &Endpoint) -> Shown {
    let Ok(prober) = Prober::new(options.clone()) else {
        return Shown::Failed;
    };
    if prober.connect(Intent::Full, from).await.is_err() {
        return Shown::Failed;
    }
    if prober.sessions() == 0 {
        return Shown::NoTicket;
    }
    match prober.connect(Intent::Resume, to).await {
        Err(_) => Shown::Failed,
        Ok(connection) if connection.kind.is_resumed() => Shown::Resumed,
        Ok(_) => Shown::Full,
    }
}

/// Runs all jobs, [`AT_A_TIME`] of them at once, and gives their results in order.
async fn some_at_a_time<T: 'static>(jobs: VecDeque<impl Future<Output = T> + 'static>) -> Vec<T> {
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let mut waiting = jobs.into_iter().enumerate();
    LocalSet::new()
        .run_until(async {
            let mut running = JoinSet::new();
            loop {
                while running.len() < AT_A_TIME
                    && let Some((number, job)) = waiting.next()
                {
                    running.spawn_local(async move { (number, job.await) });
                }
                match running.join_next().await {
                    Some(Ok((number, result))) => results[number] = Some(result),
                    // A job is neither aborted nor does it panic.
                    Some(Err(_)) => {}
                    None => break,
                }
            }
        })
        .await;
    results.into_iter().flatten().collect()
}

fn letters(number: usize) -> String {
    let last = char::from(b'A' + (number % 26) as u8);
    match number / 26 {
        0 => last.to_string(),
        more => letters(more - 1) + &last.to_string(),
    }
}

/// Makes the report of the matrices: groups, verdict and advice.
fn judged(
    name: &str,
    nodes: Vec<Node>,
    left_out: usize,
    matrices: &[(TlsVersion, Matrix)],
) -> Fleet {
    let tables: Vec<Table> = matrices
        .iter()
        .map(|(version, matrix)| table(*version, matrix))
        .collect();
    let mut parts = Vec::new();
    for (version, matrix) in matrices {
        let mut advice = Vec::new();
        advise(matrix, &mut advice);
        parts.extend(advice.into_iter().map(|text| (version.name(), text)));
    }
    let mut advice = together(parts.into_iter());
    for node in nodes.iter().filter(|node| node.failure.is_some()) {
        let failure = node.failure.as_deref().unwrap_or_default();
        advice.push(format!(
            "{} ({}) does not answer as it should: {failure}",
            node.node, node.endpoint
        ));
    }
    Fleet {
        name: name.to_owned(),
        verdict: verdict(&nodes, &tables),
        nodes,
        left_out,
        matrices: tables,
        advice,
    }
}

fn table(version: TlsVersion, matrix: &Matrix) -> Table {
    let groups = matrix.groups().into_iter();
    Table {
        version: version.name(),
        shown: matrix.0.clone(),
        groups: groups
            .map(|group| group.into_iter().map(letters).collect())
            .collect(),
        resumed_share: matrix.chance(),
        not_spoken: matrix.failed().len() == matrix.0.len(),
    }
}

fn verdict(nodes: &[Node], tables: &[Table]) -> String {
    let spoken: Vec<&Table> = tables.iter().filter(|table| !table.not_spoken).collect();
    if spoken.is_empty() {
        return "No handshake with any node worked.".into();
    }
    if nodes.len() == 1 {
        let own = |table: &&&Table| table.shown[0][0] == Shown::Resumed;
        return match spoken.iter().filter(own).count() == spoken.len() {
            true => "There is one node, and it resumes its own tickets; name more with --endpoint to compare them.".into(),
            false => "There is one node, and it does not resume all of its own tickets.".into(),
        };
    }
    let parts = spoken
        .iter()
        .map(|table| (table.version, sentence(table, nodes.len())));
    together(parts).join(" ")
}

/// Says once what is true of several versions, with their names in front.
fn together(parts: impl Iterator<Item = (&'static str, String)>) -> Vec<String> {
    let mut said: Vec<(String, String)> = Vec::new();
    for (version, text) in parts {
        match said.iter_mut().find(|(_, known)| *known == text) {
            Some((versions, _)) => {
                versions.push_str(", ");
                versions.push_str(version);
            }
            None => said.push((version.to_owned(), text)),
        }
    }
    said.into_iter()
        .map(|(versions, text)| format!("{versions}: {text}"))
        .collect()
}

fn sentence(table: &Table, nodes: usize) -> String {
    let groups = table.groups.len();
    let share = table.resumed_share * 100.0;
    if table
        .shown
        .iter()
        .flatten()
        .all(|shown| *shown == Shown::Resumed)
    {
        return format!("all {nodes} nodes share their ticket keys.");
    }
    if table
        .shown
        .iter()
        .flatten()
        .all(|shown| *shown != Shown::Resumed)
    {
        return "no node resumes anything.".into();
    }
    format!(
        "not all nodes share their ticket keys; there are {groups} groups: {}. A client whose next visit \
         goes to any node resumes in {share:.0} % of them instead of 100 %.",
        table
            .groups
            .iter()
            .map(|group| group.join(" "))
            .collect::<Vec<_>>()
            .join(" | ")
    )
}

/// What to do about one matrix.
fn advise(matrix: &Matrix, advice: &mut Vec<String>) {
    let names = |nodes: Vec<usize>| {
        nodes
            .into_iter()
            .map(letters)
            .collect::<Vec<_>>()
            .join(", ")
    };
    if matrix.is_whole() || matrix.failed().len() == matrix.0.len() {
        return;
    }
    let forgetful = matrix.forgetful();
    if !forgetful.is_empty() {
        advice.push(format!(
            "{} not even resumes its own tickets: switch on session tickets (nginx: ssl_session_tickets on; \
             HAProxy: remove no-tls-tickets)",
            names(forgetful)
        ));
    }
    let several = matrix.several_behind_one();
    if !several.is_empty() {
        advice.push(format!(
            "behind {} there is more than one node or process, and they do not share their ticket keys",
            names(several)
        ));
    }
    for (from, to) in matrix.one_way() {
        advice.push(format!(
            "{} takes tickets of {}, but not the other way about: a rotation of keys is under way, or has \
             stopped half-way",
            letters(to),
            letters(from)
        ));
    }
    let alive = matrix.0.len() - matrix.failed().len();
    let groups = matrix.groups();
    let able = groups.iter().filter(|group| {
        group
            .iter()
            .any(|node| matrix.0[*node][*node] == Shown::Resumed)
    });
    if alive > 1 && able.count() > 1 {
        advice.push(
            "give all nodes the same ticket keys and rotate them together (nginx: ssl_session_ticket_key; \
             HAProxy: tls-ticket-keys), or send a client to the same node each time"
                .into(),
        );
    }
}
