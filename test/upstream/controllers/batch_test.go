package upstream

// work is a Job, with more of its spec and the annotations of its pods.
func work(more, annotations string) step {
	return create(`
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  ` + more + `
  template:
    metadata: {annotations: {` + annotations + `}}
    spec: {restartPolicy: Never, containers: [{name: c, image: "one:1"}]}
`)
}

func jobs() []script {
	const completes = "judge/outcome: complete"
	const fails = `judge/outcome: fail, judge/exit-code: "42"`
	return []script{
		{"job-plain", []step{
			work("completions: 3\n  parallelism: 2", completes),
			remove("jobs", "work", background),
		}},
		{"job-indexed", []step{work("completions: 4\n  parallelism: 2\n  completionMode: Indexed", completes)}},
		{"job-scaled", []step{
			work("completions: 3\n  parallelism: 3\n  completionMode: Indexed", ""),
			patch("jobs", "work", `{"spec":{"completions":2,"parallelism":2}}`),
			removePods(1, "job-name=work"),
			patch("jobs", "work", `{"spec":{"parallelism":0}}`),
		}},
		{"job-backoff", []step{work("backoffLimit: 0", fails)}},
		{"job-backoff-index", []step{
			work("completions: 3\n  parallelism: 3\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n  maxFailedIndexes: 2", `judge/fail-indexes: "1"`),
		}},
		{"job-failure-policy", []step{
			work("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}", fails),
		}},
		{"job-failure-index", []step{
			work("completions: 2\n  parallelism: 2\n  completionMode: Indexed\n  backoffLimitPerIndex: 3\n"+
				"  podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1]}}]}", `judge/fail-indexes: "0"`),
		}},
		{"job-success-policy", []step{
			work("completions: 3\n  parallelism: 3\n  completionMode: Indexed\n  backoffLimit: 9\n  successPolicy: {rules: [{succeededIndexes: \"1\"}]}",
				`judge/fail-indexes: "0,2"`),
		}},
		{"job-suspend", []step{
			work("completions: 2\n  parallelism: 2\n  suspend: true", ""),
			patch("jobs", "work", `{"spec":{"suspend":false}}`),
			patch("jobs", "work", `{"spec":{"suspend":true}}`),
		}},
		{"job-deadline", []step{work("activeDeadlineSeconds: 4", ""), later(calm)}},
		{"job-ttl", []step{work("ttlSecondsAfterFinished: 6", completes), later(2 * calm)}},
		{"job-managed-by", []step{work("managedBy: example.com/other", completes)}},
	}
}

func cronJobs() []script {
	const template = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  MORE
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {judge/outcome: complete}}
        spec: {restartPolicy: Never, containers: [{name: c, image: "one:1"}]}
`
	return []script{
		{"cronjob-suspended", []step{
			create(replaced(template, `schedule: "* * * * *"`+"\n  suspend: true")),
			patch("cronjobs", "tick", `{"spec":{"schedule":"0 0 30 2 *","suspend":false}}`),
		}},
		{"cronjob-zone", []step{
			create(replaced(template, `schedule: "0 3 29 2 *"`+"\n  timeZone: Europe/Oslo")),
			remove("cronjobs", "tick", foreground),
		}},
	}
}
