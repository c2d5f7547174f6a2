"""The catalogue: for every field of the contract the PromQL that means what the simulator shows.

Each text brings one finite sample or none. A default of 0 stands only where a series that must
exist says that nothing happened. Sums over the gateway keep `job` and `instance`, so that a
selector that matches two gateways brings two series, which is refused, and not their sum. Rates of
what may go away are taken only while the series is there: `rate` speaks on for a whole window.
"""

from __future__ import annotations

from ...envs.schema.fingerprint import Contract
from ..errors import SettingsError
from .catalogue_params import CatalogueParams
from .promql import duration, exact, regex, series
from .query import Query, field_query, freshness_query

_LEAST_SCRAPES = 4
"""Scrapes a window must hold: with fewer, one late scrape empties every rate."""
_GATEWAY = "by (job, instance)"
_DEPLOYMENT = "by (cluster, namespace)"


def catalogue(params: CatalogueParams, contract: Contract) -> tuple[Query, ...]:
    """All queries of a tick: the checks of freshness first, then fields.

    Args:
        params: Where the gateway and its replicas are found.
        contract: Gives the window and the samples a quantile needs.

    Raises:
        SettingsError: The window holds fewer than four scrapes, or an override invents values.
    """
    least_s = _LEAST_SCRAPES * params.scrape_interval_s
    if contract.window_s < least_s:
        msg = (
            f"catalogue: the contract's window of {contract.window_s:g} s holds fewer than "
            f"{_LEAST_SCRAPES} scrapes; expected a scrape_interval_s of at most "
            f"{contract.window_s / _LEAST_SCRAPES:g}, it is {params.scrape_interval_s:g}"
        )
        raise SettingsError(msg)
    writer = _Writer(params, contract)
    texts = {
        **writer.envoy(),
        **writer.replicas(),
        **(writer.kubernetes() if params.replica_counts == "kubernetes" else writer.membership()),
        **writer.vram(),
        **writer.cpu(),
        **params.overrides,
    }
    fields = [
        field_query(name, text) for name, text in texts.items() if name not in params.disabled
    ]
    return (*writer.freshness(), *fields)


class _Writer:
    """Writes the texts for one gateway."""

    def __init__(self, params: CatalogueParams, contract: Contract) -> None:
        self._p = params
        self._window_s = contract.window_s
        self._w = f"[{duration(contract.window_s)}]"
        self._minimum = contract.minimum_samples
        gateway = (exact("job", params.gateway_job), regex("instance", params.gateway_instance))
        self._gateway = gateway
        self._manager = (*gateway, exact("envoy_http_conn_manager_prefix", params.conn_manager))
        self._cluster = (*gateway, exact("envoy_cluster_name", params.cluster))
        self._targets = series("up", exact("job", params.replica_job))

    def _envoy(self, metric: str, *more: str) -> str:
        return series(f"envoy_{metric}", *self._cluster, *more)

    def _vllm(self, metric: str) -> str:
        job, model = exact("job", self._p.replica_job), exact("model_name", self._p.model)
        return series(f"vllm:{metric}", job, model)

    def _endpoints(self) -> str:
        """A zero for each endpoint that takes requests, named like a replica."""
        label = self._p.endpoint_label
        return (
            f'0 * label_replace({self._envoy("cluster_endpoint_rq_total")},"{label}","$1",'
            '"envoy_endpoint_address","(.+)")'
        )

    def _taking_requests(self, vector: str) -> str:
        """That part of a vector of the replicas that belongs to endpoints of the gateway."""
        label = self._p.endpoint_label
        return vector if label is None else f"({vector}) and on({label}) ({self._endpoints()})"

    def freshness(self) -> tuple[Query, ...]:
        """Whether gateway and replicas are seen now: a dead target's rates go on for a window."""
        age_s = 2 * self._p.scrape_interval_s + 1.0
        label = self._p.endpoint_label
        up = self._targets
        if label is not None:  # an endpoint without a target counts as down
            known = f"{self._targets} and on({label}) {self._endpoints()}"
            up = f"({known}) or on({label}) {self._endpoints()}"
        arrivals = series("envoy_http_downstream_rq_total", *self._manager)
        newest = f"timestamp({self._targets})"
        return (
            freshness_query(
                "gateway_up", series("up", *self._gateway), 1, 1, "the gateway was scraped"
            ),
            freshness_query(
                "gateway_age_s",
                f"time() - timestamp({arrivals})",
                -age_s,
                age_s,
                "age of the gateway's newest sample",
            ),
            freshness_query(
                "replicas_up", f"min({up})", 1, 1, "every replica that takes requests was scraped"
            ),
            freshness_query(
                "replicas_age_s",
                f"time() - min({self._taking_requests(newest)})",
                -age_s,
                age_s,
                "age of the newest sample of the replica that is furthest behind",
            ),
        )

    def envoy(self) -> dict[str, str]:
        """What the client sees, and what the breaker sees of each endpoint."""
        w = self._w
        arrivals = series("envoy_http_downstream_rq_total", *self._manager)
        answers = series("envoy_http_downstream_rq_xx", *self._manager)
        failures = series(
            "envoy_http_downstream_rq_xx", *self._manager, exact("envoy_response_code_class", "5")
        )
        broken = series("envoy_http_downstream_rq_tx_reset", *self._manager)
        shed = self._envoy("cluster_upstream_rq", exact("envoy_response_code", "429"))
        none = f"0 * sum {_GATEWAY} (rate({answers}{w}))"
        failed = (
            f"sum {_GATEWAY} (rate({failures}{w})) + sum {_GATEWAY} (rate({broken}{w}))"
            f" + (sum {_GATEWAY} (rate({shed}{w})) or {none})"
        )
        if self._p.rate_limit_prefix is not None:
            limited = series(
                "envoy_http_local_rate_limit_enforced",
                *self._gateway,
                exact("envoy_local_http_ratelimit_prefix", self._p.rate_limit_prefix),
            )
            failed += f" + sum {_GATEWAY} (rate({limited}{w}))"
        # A stream that breaks after its first token is an answer and a failure, as in training.
        all_answers = f"sum {_GATEWAY} (rate({answers}{w})) + sum {_GATEWAY} (rate({broken}{w}))"
        enough = f"{self._minimum / self._window_s!r}"
        bad = self._envoy("cluster_endpoint_rq_error")
        good = self._envoy("cluster_endpoint_rq_success")
        volume = f"{self._p.request_volume / self._window_s!r}"
        share = f"(rate({bad}{w}) / ((rate({bad}{w}) + rate({good}{w})) >= {volume}) and {bad})"
        return {
            "request_rate_rps": f"sum {_GATEWAY} (rate({arrivals}{w}))",
            "error_rate": f"clamp_max(({failed}) / (({all_answers}) >= {enough}), 1)",
            "replicas_ejected": self._envoy("cluster_outlier_detection_ejections_active"),
            "replica_error_spread": (
                f"max {_GATEWAY} {share} - quantile {_GATEWAY} (0.5, {share})"
            ),
        }

    def _quantile(self, q: float, metric: str) -> str:
        buckets, count = self._vllm(f"{metric}_bucket"), self._vllm(f"{metric}_count")
        return (
            f"histogram_quantile({q}, sum by (le) (rate({buckets}{self._w})))"
            f" and on() (sum(increase({count}{self._w})) >= {self._minimum})"
        )

    def _kv_usage(self) -> str:
        now, before = self._vllm("kv_cache_usage_perc"), self._vllm("gpu_cache_usage_perc")
        return f"avg({self._taking_requests(f'{now} or {before}')})"

    def replicas(self) -> dict[str, str]:
        """What the replicas say of themselves."""
        w = self._w
        first = self._vllm("time_to_first_token_seconds_count")
        prompt, output = self._vllm("prompt_tokens_total"), self._vllm("generation_tokens_total")
        return {
            "ttft_p95_s": self._quantile(0.95, "time_to_first_token_seconds"),
            "e2e_p95_s": self._quantile(0.95, "e2e_request_latency_seconds"),
            "prompt_tokens_p50": self._quantile(0.5, "request_prompt_tokens"),
            "prompt_tokens_p95": self._quantile(0.95, "request_prompt_tokens"),
            "samples": f"sum(increase({first}{w}))",
            "prompt_token_rate_tps": f"sum(rate({prompt}{w}) and {prompt})",
            "output_token_rate_tps": f"sum(rate({output}{w}) and {output})",
            "running": f"sum({self._vllm('num_requests_running')})",
            "waiting": f"sum({self._vllm('num_requests_waiting')})",
            "kv_usage": self._kv_usage(),
        }

    def _deployment(self, metric: str) -> str:
        """One value, however many copies of kube-state-metrics there are."""
        labels = exact("namespace", self._p.namespace), exact("deployment", str(self._p.deployment))
        return f"max {_DEPLOYMENT} ({series(f'kube_deployment_{metric}', *labels)})"

    def kubernetes(self) -> dict[str, str]:
        """Replicas as kube-state-metrics counts them."""
        requested = self._deployment("spec_replicas")
        ready = self._deployment("status_replicas_available")
        phase = series(
            "kube_pod_status_phase",
            exact("namespace", self._p.namespace),
            regex("pod", str(self._p.pod_pattern)),
            regex("phase", "Pending|Running"),
        )
        pods = f"count {_DEPLOYMENT} (max by (cluster, namespace, pod) ({phase}) == 1)"
        return {
            "replicas_requested": requested,
            "replicas_ready": ready,
            "replicas_starting": f"clamp_min({requested} - {ready}, 0)",
            # The deployment's own count where it has one; else the pods it no longer counts.
            "replicas_draining": (
                f"{self._deployment('status_terminating_replicas')}"
                f" or {self._deployment('status_replicas_terminating')}"
                f" or clamp_min({pods} - {self._deployment('status_replicas')}, 0)"
            ),
        }

    def membership(self) -> dict[str, str]:
        """Replicas as the gateway's cluster counts them. An ejected one is still a ready one."""
        healthy = self._envoy("cluster_membership_healthy")
        ejected = self._envoy("cluster_outlier_detection_ejections_active")
        return {
            "replicas_requested": self._envoy("cluster_membership_total"),
            "replicas_ready": f"{healthy} + {ejected}",
        }

    def vram(self) -> dict[str, str]:
        """Computed where the sizes are known: engines preallocate, so raw memory says nothing."""
        p = self._p
        if p.weights_gib is not None:
            used = f"{p.weights_gib!r} + {p.kv_gib!r} * {self._kv_usage()}"
            return {"vram_utilization": f"clamp_max(({used}) / {p.vram_gib!r}, 1)"}
        if p.pod_pattern is None:
            return {}
        labels = exact("namespace", p.namespace), regex("pod", p.pod_pattern)
        used, free = (series(f"DCGM_FI_DEV_FB_{part}", *labels) for part in ("USED", "FREE"))
        return {"vram_utilization": f"max({used} / ({used} + {free}))"}

    def cpu(self) -> dict[str, str]:
        """Share of its limit that each pod uses, the mean over pods that are not known unready."""
        if self._p.pod_pattern is None:
            return {}
        pods = exact("namespace", self._p.namespace), regex("pod", self._p.pod_pattern)
        used = series("container_cpu_usage_seconds_total", *pods, 'container!=""')
        limit = series(
            "kube_pod_container_resource_limits", *pods, exact("resource", "cpu"), 'unit="core"'
        )
        unready = series("kube_pod_status_ready", *pods, exact("condition", "true"))
        share = (
            f"sum by (pod) (rate({used}{self._w}) and {used})"
            f" / on(pod) (sum by (pod) ({limit}) > 0)"
        )
        return {"cpu_utilization": f"avg(clamp_max({share}, 1) unless on(pod) ({unready} == 0))"}
