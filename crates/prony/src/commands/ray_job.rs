//! `prony ray-job`: the manifest of a RayJob (KubeRay) that runs a plan on several nodes.

use std::fmt::Write as _;

use prony_run::environment::Environment;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::files::read_text;
use prony_run::output;
use prony_run::plan_file::{self, PlanFile};

use crate::cli::exec_options::ExecArgs;
use crate::cli::ray_job::RayJobArgs;
use crate::exec_options::environment;

/// Prints the manifest.
pub(super) fn ray_job(args: &RayJobArgs) -> Result<Exit, Error> {
    let text = read_text("plan", &args.plan)?;
    let around: Environment = environment(&ExecArgs::default(), false).of_share();
    let name = args.plan.display().to_string();
    let file = plan_file::parse_all(&name, &text, None, &around).map_err(Error::PlanFile)?;
    let plan = match &file {
        PlanFile::Load(planned) => Some(&planned.plan),
        // All phases have the same requests.
        PlanFile::Phases(all) => all.list().first().map(|phase| &phase.planned.plan),
    };
    if let Some((variable, _)) = plan.and_then(|plan| plan.data.environment.first()) {
        return Err(Error::Argument(format!(
            "{name}: the plan reads the environment variable {variable}, which the job does not \
             have; write its value into the plan"
        )));
    }
    output::to_stdout(manifest(args, &text).as_bytes()).map(|()| Exit::Done)
}

/// The manifest: the plan as a ConfigMap, and the job. A head without processors carries no worker,
/// and each worker has a node of its own.
fn manifest(args: &RayJobArgs, plan: &str) -> String {
    let mut lines = String::new();
    for line in plan.trim_end().lines() {
        let space = if line.is_empty() { "" } else { "    " };
        let _ = writeln!(lines, "{space}{line}");
    }
    let values = [
        ("HOSTS", args.hosts.to_string()),
        ("IMAGE", args.image.clone()),
        ("NAME", args.name.clone()),
        ("CPUS", args.cpus.to_string()),
        ("MEMORY", args.memory.clone()),
        ("VERSION", args.ray_version.clone()),
    ];
    let filled = |template: &str| {
        let fill = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("<{name}>"), value)
        };
        values.iter().fold(template.to_owned(), fill)
    };
    [filled(PLAN), lines, filled(HEAD), filled(WORKERS)].concat()
}

/// Before the lines of the plan.
const PLAN: &str = r#"# Create the token first:
#   kubectl create secret generic <NAME> --from-literal=auth_token="$(openssl rand -hex 32)"
# then apply this manifest, and read the report in the log of the job:
#   kubectl logs -f job/<NAME>
apiVersion: v1
kind: ConfigMap
metadata:
  name: "<NAME>"
data:
  plan.toml: |2
"#;

/// The job, and the head of its cluster.
const HEAD: &str = r#"---
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: "<NAME>"
spec:
  entrypoint: prony run /plan/plan.toml --engine ray --hosts <HOSTS> --no-progress
  backoffLimit: 0
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    rayVersion: "<VERSION>"
    authOptions:
      mode: token
      secretName: "<NAME>"
    headGroupSpec:
      rayStartParams:
        num-cpus: "0"
      template:
        spec:
          containers:
            - name: ray-head
              image: "<IMAGE>"
              ports:
                - name: gcs-server
                  containerPort: 6379
                - name: dashboard
                  containerPort: 8265
                - name: client
                  containerPort: 10001
              resources:
                requests:
                  cpu: "1"
                  memory: "<MEMORY>"
                limits:
                  cpu: "1"
                  memory: "<MEMORY>"
              volumeMounts:
                - name: plan
                  mountPath: /plan
          volumes:
            - name: plan
              configMap:
                name: "<NAME>"
"#;

/// The workers.
const WORKERS: &str = r#"    workerGroupSpecs:
      - groupName: workers
        replicas: <HOSTS>
        minReplicas: <HOSTS>
        maxReplicas: <HOSTS>
        rayStartParams:
          num-cpus: "<CPUS>"
        template:
          metadata:
            labels:
              prony: "<NAME>"
          spec:
            topologySpreadConstraints:
              - maxSkew: 1
                topologyKey: kubernetes.io/hostname
                whenUnsatisfiable: DoNotSchedule
                labelSelector:
                  matchLabels:
                    prony: "<NAME>"
            containers:
              - name: ray-worker
                image: "<IMAGE>"
                resources:
                  requests:
                    cpu: "<CPUS>"
                    memory: "<MEMORY>"
                  limits:
                    cpu: "<CPUS>"
                    memory: "<MEMORY>"
"#;
