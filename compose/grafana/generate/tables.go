package main

func overview() dashboard {
	return dashboard{"overview", "Overview", []row{
		{"Now", []panel{
			now("Processes up", "short", "count by (job) (up == 1)", "{{job}}"),
			now("Processes down", "short", "sum(up == bool 0)", "down"),
			now("Alerts", "short", `count(ALERTS{alertstate="firing"}) or vector(0)`, "firing"),
			now("Nodes", "short", "count(kubelet_node_name)", "nodes"),
			now("Running pods", "short", "sum(kubelet_running_pods)", "pods"),
			now("Waiting pods", "short", "sum(scheduler_pending_pods)", "pods"),
			now("Versions", "short", "count by (version) (garboard_build_info)", "{{version}}"),
			now("Leaders", "short", "sum by (name) (leader_election_master_status)", "{{name}}").saying("Exactly one each."),
			now("Publishers", "short", "sum by (election) (garboard_publisher_leader)", "{{election}}").saying("Exactly one each."),
			now("etcd has a leader", "short", "min(etcd_server_has_leader)", "all members"),
			now("etcd's space", "percentunit", "max(garboard:etcd_space:ratio)", "in use"),
			now("Next certificate to expire", "s", "min(garboard_certificate_expiration_timestamp_seconds) - time()", "in"),
		}},
		{"Service", []panel{
			graph("Requests", "reqps", "sum by (verb) (rate(apiserver_request_total[$__rate_interval]))", "{{verb}}"),
			graph("Failed requests", "percentunit", "garboard:apiserver_request_errors:ratio_rate5m", "5xx").saying("Answered with 500 or above."),
			graph("Latency, 99%", "s", "garboard:apiserver_request_duration_seconds:p99_rate5m", "{{verb}}"),
			graph("Informer lag", "s", "max by (service) (garboard:informer_lag_seconds:max)", "{{service}}").saying("How long a service's stores have been behind the changes it has heard of."),
			graph("Pods waiting for a node", "short", "sum by (queue) (scheduler_pending_pods)", "{{queue}}"),
			graph("Running pods", "short", "kubelet_running_pods * on (job, instance) group_left (node) kubelet_node_name", "{{node}}"),
		}},
		{"Resource usage", []panel{
			graph("CPU", "short", "sum by (job) (rate(process_cpu_seconds_total[$__rate_interval]))", "{{job}}").saying("Cores in use."),
			graph("Memory", "bytes", "sum by (job) (process_resident_memory_bytes)", "{{job}}"),
			graph("Restarts", "short", "sum by (job) (changes(process_start_time_seconds[15m]))", "{{job}}").saying("Within 15 minutes."),
		}},
	}}
}

func apiserver() dashboard {
	return dashboard{"apiserver", "API server", []row{
		{"Requests", []panel{
			graph("By verb", "reqps", "sum by (verb) (rate(apiserver_request_total[$__rate_interval]))", "{{verb}}"),
			graph("By status", "reqps", "sum by (code) (rate(apiserver_request_total[$__rate_interval]))", "{{code}}"),
			graph("By resource", "reqps", "topk(10, sum by (group, resource) (rate(apiserver_request_total[$__rate_interval])))", "{{resource}}.{{group}}"),
			quantiles("Latency", "apiserver_request_duration_seconds_bucket", "verb").saying("Watches and logs excluded."),
			{title: "Failed and rejected", unit: "reqps", queries: []query{
				{`sum(rate(apiserver_request_total{code=~"5.."}[$__rate_interval])) or vector(0)`, "500 and above"},
				{`sum(rate(apiserver_request_total{code="409"}[$__rate_interval])) or vector(0)`, "conflicts"},
				{`sum(rate(apiserver_request_total{code=~"401|403"}[$__rate_interval])) or vector(0)`, "unauthorized"},
				{"sum(rate(apiserver_dropped_requests_total[$__rate_interval])) or vector(0)", "too many"},
			}},
			graph("In flight", "short", "sum by (instance, request_kind) (apiserver_current_inflight_requests)", "{{instance}} {{request_kind}}"),
			graph("Watches and logs", "short", "sum by (instance) (apiserver_longrunning_requests)", "{{instance}}").saying("Over HTTP; clients that follow over NATS are not included."),
			graph("Events sent to watches", "short", "sum(rate(apiserver_watch_events_total[$__rate_interval])) or vector(0)", "per second"),
			graph("Requests over NATS", "reqps", "sum(rate(garboard_bushttp_requests_total[$__rate_interval])) or vector(0)", "per second"),
		}},
		{"Clients", []panel{
			graph("Authentication", "reqps", "sum by (result) (rate(authentication_attempts[$__rate_interval]))", "{{result}}"),
			graph("With certificates that expire within a day", "reqps", `sum(rate(apiserver_client_certificate_expiration_seconds_bucket{le="86400"}[$__rate_interval]))`, "requests"),
			{title: "Audit", unit: "short", queries: []query{
				{"sum(rate(apiserver_audit_event_total[$__rate_interval])) or vector(0)", "events"},
				{"sum(rate(apiserver_audit_error_total[$__rate_interval])) or vector(0)", "lost"},
			}},
		}},
		{"Store and caches", []panel{
			graph("Requests to etcd", "reqps", "sum by (operation) (rate(etcd_requests_total[$__rate_interval]))", "{{operation}}"),
			quantiles("Latency of etcd", "etcd_request_duration_seconds_bucket", "operation"),
			graph("Failed requests to etcd", "reqps", "sum by (operation) (rate(etcd_request_errors_total[$__rate_interval])) or vector(0)", "{{operation}}"),
			graph("Changes received", "short", "topk(10, sum by (resource) (rate(apiserver_watch_cache_events_received_total[$__rate_interval])))", "{{resource}}"),
			graph("Consistent reads from the cache", "reqps", "sum by (success, fallback) (rate(apiserver_watch_cache_consistent_read_total[$__rate_interval]))", "success {{success}}, fallback {{fallback}}"),
			{title: "Undecodable values", unit: "short", queries: []query{
				{"sum(garboard_feed_undecodable_total) or vector(0)", "in feeds"}, {"sum(apiserver_storage_decode_errors_total) or vector(0)", "in reads"},
			}},
		}},
		process("apiserver"),
	}}
}

func fabric() dashboard {
	return dashboard{"fabric", "Watch fabric", []row{
		{"Publisher", []panel{
			graph("Publisher", "short", "garboard_publisher_leader", "{{instance}} {{election}}").saying("One per election."),
			graph("Messages", "short", "sum by (type) (rate(garboard_publisher_messages_total[$__rate_interval]))", "{{type}}"),
			graph("Behind the feeds", "short", "topk(10, max by (group, resource) (apiserver_watch_cache_resource_version) - on (group, resource) max by (group, resource) (garboard_publisher_revision))", "{{resource}}").saying("Revisions that the apiservers have seen but not published yet."),
			graph("Not acknowledged by the log", "short", "sum by (instance) (garboard_publisher_unacknowledged_messages)", "{{instance}}"),
			graph("Asks answered", "reqps", "sum by (outcome) (rate(garboard_responder_asks_total[$__rate_interval]))", "{{outcome}}"),
			{title: "Faults", unit: "short", queries: []query{
				{"sum(increase(garboard_publisher_deposed_total[$__rate_interval])) or vector(0)", "publishers deposed"},
				{"sum(increase(garboard_responder_refused_total[$__rate_interval])) or vector(0)", "asks refused"},
			}},
		}},
		{"Informers", []panel{
			graph("Lag", "s", "topk(10, garboard:informer_lag_seconds:max)", "{{service}} {{resource}}").saying("How long the store has been behind the changes heard of, or a handler behind the store."),
			graph("Lag in revisions", "short", "topk(10, max by (service, resource) (informer_lag_revisions))", "{{service}} {{resource}}"),
			graph("Silence", "s", "topk(10, max by (service, resource) (informer_silent_seconds))", "{{service}} {{resource}}").saying("Progress is reported every few seconds; more than 10 s is a fault."),
			graph("Changes", "short", "sum by (service) (rate(informer_changes_total[$__rate_interval]))", "{{service}}"),
			quantiles("Time to process a batch", "informer_processing_latency_seconds_bucket", "name"),
			graph("Pending notifications", "short", "sum by (service) (informer_pending_notifications)", "{{service}}"),
			graph("Objects", "short", "sum by (service) (informer_objects)", "{{service}}"),
			graph("Queued between follower and store", "short", "sum by (name) (informer_queued_items)", "{{name}}"),
			{title: "Faults", unit: "short", queries: []query{
				{"sum(increase(informer_faults_total[$__rate_interval])) or vector(0)", "recovered"},
				{"sum(increase(informer_coalesced_updates_total[$__rate_interval])) or vector(0)", "updates coalesced"},
			}},
		}},
		{"Followers", []panel{
			graph("Asks", "reqps", "sum by (job) (rate(garboard_follow_asks_total[$__rate_interval]))", "{{job}}"),
			graph("Whole views", "short", "sum by (job) (increase(garboard_follow_whole_views_total[$__rate_interval]))", "{{job}}").saying("Each costs as much as a list."),
			{title: "Faults", unit: "short", queries: []query{
				{"sum(increase(garboard_follow_gaps_total[$__rate_interval])) or vector(0)", "gaps"},
				{"sum(increase(garboard_follow_buffer_overflows_total[$__rate_interval])) or vector(0)", "buffers full"},
				{"sum(increase(garboard_follow_fallbacks_total[$__rate_interval])) or vector(0)", "over HTTP"},
				{"sum(increase(garboard_follow_discarded_total[$__rate_interval])) or vector(0)", "discarded"},
			}},
		}},
		{"NATS", []panel{
			graph("Connected", "short", "garboard_bus_connected", "{{job}} {{instance}}"),
			{title: "Faults", unit: "short", queries: []query{
				{"sum(increase(garboard_bus_reconnects_total[$__rate_interval]))", "reconnects"},
				{"sum(increase(garboard_bus_slow_handlers_total[$__rate_interval]))", "messages lost by slow handlers"},
			}},
			graph("Requests over NATS", "short", "sum by (job, server) (garboard_bushttp_requests)", "{{job}} {{server}}").
				saying("In flight: of the API, and of nodes; watches, followed logs and sessions included."),
			graph("Log: bytes", "bytes", "max by (stream) (garboard_log_bytes)", "{{stream}}"),
			graph("Log: age of the oldest message", "s", "time() - max by (stream) (garboard_log_oldest_timestamp_seconds)", "{{stream}}").saying("How far back history can be read."),
			{title: "Log: replicas", unit: "short", queries: []query{
				{"min by (stream) (garboard_log_replicas_current)", "{{stream}} complete"}, {"max by (stream) (garboard_log_replicas)", "{{stream}} desired"},
			}},
		}},
	}}
}

func controllers() dashboard {
	return dashboard{"controllers", "Controllers and scheduler", []row{
		{"Leases", []panel{
			graph("Leader", "short", "leader_election_master_status", "{{name}} {{instance}}").saying("One per name."),
			graph("Calls to the API", "reqps", `sum by (job, code) (rate(rest_client_requests_total{job=~"controllers|scheduler"}[$__rate_interval]))`, "{{job}} {{code}}"),
			quantiles("Latency of the API", `rest_client_request_duration_seconds_bucket{job=~"controllers|scheduler"}`, "job"),
		}},
		{"Controllers", []panel{
			graph("Reconciles", "short", `topk(10, sum by (controller) (rate(controller_runtime_reconcile_total{job="controllers"}[$__rate_interval])))`, "{{controller}}"),
			graph("Failures", "short", `topk(10, sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="controllers"}[$__rate_interval])))`, "{{controller}}"),
			graph("Duration of a reconcile, 99%", "s", `topk(10, histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{job="controllers"}[$__rate_interval]))) >= 0)`, "{{controller}}"),
			graph("Waiting keys", "short", `topk(10, sum by (name) (workqueue_depth{job="controllers"}))`, "{{name}}"),
			graph("Time in the queue, 99%", "s", `topk(10, histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{job="controllers"}[$__rate_interval]))) >= 0)`, "{{name}}"),
			graph("Longest running reconcile", "s", `topk(10, max by (name) (workqueue_longest_running_processor_seconds{job="controllers"}))`, "{{name}}"),
			graph("Retries", "short", `topk(10, sum by (name) (rate(workqueue_retries_total{job="controllers"}[$__rate_interval])))`, "{{name}}"),
			graph("Requeued for a stale cache", "short", "topk(10, sum by (controller) (rate(garboard_reconcile_stale_total[$__rate_interval])))", "{{controller}}"),
			graph("Workers", "percentunit", `topk(10, sum by (controller) (controller_runtime_active_workers{job="controllers"}) / sum by (controller) (controller_runtime_max_concurrent_reconciles{job="controllers"}))`, "{{controller}}").saying("Share of workers that are busy."),
		}},
		{"Scheduler", []panel{
			graph("Attempts", "short", "sum by (result) (rate(scheduler_schedule_attempts_total[$__rate_interval]))", "{{result}}"),
			graph("Waiting pods", "short", "sum by (queue) (scheduler_pending_pods)", "{{queue}}"),
			quantiles("Duration of an attempt", "scheduler_scheduling_attempt_duration_seconds_bucket", "result"),
			quantiles("From seen to bound", "scheduler_pod_scheduling_sli_duration_seconds_bucket", ""),
			graph("Attempts per pod", "short", "sum(rate(scheduler_pod_scheduling_attempts_sum[$__rate_interval])) / sum(rate(scheduler_pod_scheduling_attempts_count[$__rate_interval]))", "average"),
		}},
		{"Processes", []panel{
			graph("CPU", "short", `rate(process_cpu_seconds_total{job=~"controllers|scheduler"}[$__rate_interval])`, "{{job}} {{instance}}"),
			graph("Memory", "bytes", `process_resident_memory_bytes{job=~"controllers|scheduler"}`, "{{job}} {{instance}}"),
			graph("Goroutines", "short", `go_goroutines{job=~"controllers|scheduler"}`, "{{job}} {{instance}}"),
		}},
	}}
}

func nodes() dashboard {
	return dashboard{"nodes", "Nodes", []row{
		{"Pods", []panel{
			graph("Running pods", "short", "kubelet_running_pods * on (job, instance) group_left (node) kubelet_node_name", "{{node}}"),
			graph("Containers", "short", "sum by (container_state) (kubelet_running_containers)", "{{container_state}}"),
			quantiles("From seen to running", "kubelet_pod_start_duration_seconds_bucket", ""),
			graph("Statuses written", "short", `sum by (result) (rate(controller_runtime_reconcile_total{job="nodeagent",controller="pod-status"}[$__rate_interval]))`, "{{result}}"),
			graph("Statuses waiting", "short", `sum by (instance) (workqueue_depth{job="nodeagent"})`, "{{instance}}"),
			graph("Calls to the API", "reqps", `sum by (code) (rate(rest_client_requests_total{job="nodeagent"}[$__rate_interval]))`, "{{code}}"),
		}},
		{"Container runtime", []panel{
			graph("Calls", "reqps", "sum by (operation_type) (rate(kubelet_runtime_operations_total[$__rate_interval]))", "{{operation_type}}"),
			graph("Failures", "reqps", "sum by (operation_type) (rate(kubelet_runtime_operations_errors_total[$__rate_interval])) or vector(0)", "{{operation_type}}"),
			graph("Duration of a call, 99%", "s", "histogram_quantile(0.99, sum by (operation_type, le) (rate(kubelet_runtime_operations_duration_seconds_bucket[$__rate_interval]))) >= 0", "{{operation_type}}"),
			graph("Age of the last list", "s", "time() - kubelet_pleg_last_seen_seconds", "{{instance}}").saying("Normally a few seconds; at 180 s the node becomes not ready."),
		}},
		{"Network", []panel{
			quantiles("Sync of the pod network", "garboard_pod_network_sync_duration_seconds_bucket", ""),
			graph("Nodes that pods reach", "short", "garboard_pod_network_peers", "{{instance}} by {{by}}"),
			{title: "Failures of the pod network", unit: "short", queries: []query{
				{"sum by (instance) (increase(garboard_pod_network_sync_failures_total[$__rate_interval]))", "{{instance}}"},
				{"sum by (instance) (garboard_pod_network_refused_cidrs)", "{{instance}} refused ranges"},
				{"garboard_pod_network_peers_reached == bool 0", "{{instance}} reaches no other node"},
				{"garboard_network_part_ready == bool 0", "{{instance}} {{network_part}} not ready"},
			}},
			quantiles("Sync of the rules of Services", "kubeproxy_sync_proxy_rules_duration_seconds_bucket", ""),
			quantiles("From a change of a pod to the rules", "kubeproxy_network_programming_duration_seconds_bucket", ""),
			graph("Refused rules", "short", "sum by (instance, ip_family) (increase(kubeproxy_sync_proxy_rules_nftables_sync_failures_total[$__rate_interval])) or vector(0)", "{{instance}} {{ip_family}}"),
			graph("DNS answers", "reqps", "sum by (rcode) (rate(coredns_dns_responses_total[$__rate_interval]))", "{{rcode}}"),
			quantiles("Latency of DNS", "coredns_dns_request_duration_seconds_bucket", ""),
			graph("Answered by the DNS cache", "percentunit", "sum(rate(coredns_cache_hits_total[$__rate_interval])) / sum(rate(coredns_cache_requests_total[$__rate_interval]))", "share").
				saying("Of the questions about names outside the plane."),
			{title: "Connections to the API over NATS", unit: "short", queries: []query{
				{"sum(garboard_api_tunnel_connections) or vector(0)", "open"},
				{"sum(increase(garboard_api_tunnel_failures_total[$__rate_interval])) or vector(0)", "failed"},
			}},
		}},
		process("nodeagent"),
	}}
}

func etcd() dashboard {
	return dashboard{"etcd", "etcd", []row{
		{"Members", []panel{
			graph("Has a leader", "short", "etcd_server_has_leader", "{{instance}}"),
			graph("Is the leader", "short", "etcd_server_is_leader", "{{instance}}"),
			graph("Leader changes", "short", "increase(etcd_server_leader_changes_seen_total[15m])", "{{instance}}").saying("Within 15 minutes."),
		}},
		{"Disk", []panel{
			quantiles("Time to write the log", "etcd_disk_wal_fsync_duration_seconds_bucket", "instance").saying("Every change waits for it: 10 ms is good, 100 ms is bad."),
			quantiles("Time to commit", "etcd_disk_backend_commit_duration_seconds_bucket", "instance"),
			{title: "Size", unit: "bytes", queries: []query{
				{"etcd_mvcc_db_total_size_in_bytes", "{{instance}} file"}, {"etcd_mvcc_db_total_size_in_use_in_bytes", "{{instance}} in use"},
				{"etcd_server_quota_backend_bytes", "{{instance}} quota"},
			}},
		}},
		{"Work", []panel{
			graph("Calls", "reqps", "sum by (grpc_method) (rate(grpc_server_handled_total[$__rate_interval]))", "{{grpc_method}}"),
			{title: "Proposals", unit: "short", queries: []query{
				{"rate(etcd_server_proposals_committed_total[$__rate_interval])", "{{instance}} committed"}, {"etcd_server_proposals_pending", "{{instance}} waiting"},
				{"rate(etcd_server_proposals_failed_total[$__rate_interval])", "{{instance}} failed"},
			}},
			{title: "Traffic", unit: "Bps", queries: []query{
				{"rate(etcd_network_client_grpc_received_bytes_total[$__rate_interval])", "{{instance}} in"}, {"rate(etcd_network_client_grpc_sent_bytes_total[$__rate_interval])", "{{instance}} out"},
			}},
			graph("Keys", "short", "etcd_debugging_mvcc_keys_total", "{{instance}}"),
			{title: "Watchers", unit: "short", queries: []query{
				{"etcd_debugging_mvcc_watcher_total", "{{instance}}"}, {"etcd_debugging_mvcc_slow_watcher_total", "{{instance}} behind"},
			}},
			{title: "Slow", unit: "short", queries: []query{
				{"increase(etcd_server_slow_apply_total[15m])", "{{instance}} writes"}, {"increase(etcd_server_slow_read_indexes_total[15m])", "{{instance}} reads"},
			}},
		}},
		process("etcd"),
	}}
}
