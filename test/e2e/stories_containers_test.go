//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestStoriesWithContainers follows workloads on one plane with a real containerd, as their users see them.
func TestStoriesWithContainers(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	stories(t, p, []story{
		{"a StatefulSet is scaled and rolled", statefulSetIsRolled},
		{"an indexed Job fails in parts", indexedJobFails},
		{"a CronJob runs each minute", cronJobRuns},
	})
	noneLeft(t, containers)
}

const ledger = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ledger}
spec:
  serviceName: ledger
  replicas: 3
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: ledger
        image: busybox:1.36
        env: [{name: EDITION, value: one}]
        command: [sh, -c, "echo $HOSTNAME $EDITION >> /data/names && cat /data/names && sleep 3600"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Mi}}
`

// statefulSetIsRolled has three pods that append a line to a file of theirs whenever they start.
func statefulSetIsRolled(t *testing.T, p *plane.Plane) {
	expectSoon(t, p, `^local-path$`, "get", "storageclass", "-o", "jsonpath={.items[*].metadata.name}")
	in := func(args ...string) []string { return append(args, "-n", "ledgers") }
	written := func(editions ...string) {
		t.Helper()
		for i, edition := range editions {
			var want strings.Builder
			for word := range strings.FieldsSeq(edition) {
				fmt.Fprintf(&want, "ledger-%d %s\n", i, word)
			}
			expectSoon(t, p, "^"+want.String()+"$", in("logs", fmt.Sprintf("ledger-%d", i))...)
		}
	}
	state := func(want string) {
		t.Helper()
		expectSoon(t, p, "^"+want+"$", in("get", "pods", "-l", "app=ledger", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].image} {.status.containerStatuses[0].ready};{end}`)...)
	}
	expect(t, p, "", `created`, "create", "namespace", "ledgers")
	expect(t, p, ledger, `^statefulset\.apps/ledger created\n$`, in("create", "-f", "-")...)
	expect(t, p, "", `(?m)^partitioned roll out complete: 3 new pods have been updated\.\.\.$|^statefulset rolling update complete 3 pods at revision `,
		in("rollout", "status", "statefulset/ledger")...)
	written("one", "one", "one")
	volumes := p.Must(t, "", in("get", "pvc", "-o", "jsonpath={.items[*].spec.volumeName}")...)
	if len(strings.Fields(volumes)) != 3 {
		t.Errorf("the volumes are %q, want 3", volumes)
	}

	expect(t, p, "", `^statefulset\.apps/ledger scaled\n$`, in("scale", "statefulset/ledger", "--replicas=1")...)
	state("ledger-0 busybox:1.36 true;")
	expect(t, p, "", `^statefulset\.apps/ledger scaled\n$`, in("scale", "statefulset/ledger", "--replicas=3")...)
	written("one", "one one", "one one")
	expectSoon(t, p, `^NAME +READY +AGE +CONTAINERS +IMAGES\nledger +3/3 +\S+ +ledger +busybox:1\.36\n$`, in("get", "statefulset", "-o", "wide")...)

	// Only pods from the partition on get the new revision.
	expect(t, p, "", `patched\n$`, in("patch", "statefulset", "ledger", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`)...)
	expect(t, p, "", `patched\n$`, in("patch", "statefulset", "ledger", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"ledger","image":"busybox:1.28","env":[{"name":"EDITION","value":"two"}]}]}}}}`)...)
	expect(t, p, "", `(?m)^partitioned roll out complete: 1 new pods have been updated\.\.\.$`, in("rollout", "status", "statefulset/ledger")...)
	state("ledger-0 busybox:1.36 true;ledger-1 busybox:1.36 true;ledger-2 busybox:1.28 true;")
	written("one", "one one", "one one two")
	expect(t, p, "", `patched\n$`, in("patch", "statefulset", "ledger", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)...)
	expect(t, p, "", `(?m)^partitioned roll out complete: 3 new pods have been updated\.\.\.$|^statefulset rolling update complete 3 pods at revision `,
		in("rollout", "status", "statefulset/ledger")...)
	state("ledger-0 busybox:1.28 true;ledger-1 busybox:1.28 true;ledger-2 busybox:1.28 true;")
	written("one two", "one one two", "one one two")
	if got := p.Must(t, "", in("get", "pvc", "-o", "jsonpath={.items[*].spec.volumeName}")...); got != volumes {
		t.Errorf("the volumes are %q, were %q", got, volumes)
	}
	expect(t, p, "", `^statefulset\.apps/ledger \nREVISION +CHANGE-CAUSE\n1 +<none>\n2 +<none>\n\n$`, in("rollout", "history", "statefulset/ledger")...)
	expect(t, p, "", `deleted`, "delete", "namespace", "ledgers", "--wait", "--timeout=180s")
	plane.Eventually(t, "the volumes to go", func(context.Context) error {
		left := p.Must(t, "", "get", "pv", "-o", "jsonpath={.items[*].metadata.name}")
		for volume := range strings.FieldsSeq(volumes) {
			if strings.Contains(left, volume) {
				return fmt.Errorf("still there: %s", left)
			}
		}
		return nil
	})
}

// parts returns a Job of five indexes, of which 1 and 3 fail. The others end with the command last.
func parts(name, limits, last string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  completionMode: Indexed
  completions: 5
  parallelism: 5
  %s
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - name: part
        image: busybox:1.36
        command: [sh, -c, "echo part $JOB_COMPLETION_INDEX && test -f /good/$JOB_COMPLETION_INDEX && %s"]
        volumeMounts: [{name: good, mountPath: /good}]
      volumes: [{name: good, configMap: {name: good}}]
`, name, limits, last)
}

// indexedJobFails has a Job that goes on in spite of failed indexes, and one that does not.
func indexedJobFails(t *testing.T, p *plane.Plane) {
	in := func(args ...string) []string { return append(args, "-n", "parts") }
	status := func(name, want string) {
		t.Helper()
		expectSoon(t, p, "^"+want+"$", in("get", "job", name, "-o", `jsonpath={.status.completedIndexes};{.status.failedIndexes};`+
			`{.status.active};{.status.succeeded};{.status.failed};{range .status.conditions[*]}{.type}={.status} {.reason} {.message};{end}`)...)
	}
	expect(t, p, "", `created`, "create", "namespace", "parts")
	expect(t, p, "", `created`, in("create", "configmap", "good", "--from-literal=0=", "--from-literal=2=", "--from-literal=4=")...)
	expect(t, p, parts("tolerant", "backoffLimitPerIndex: 1\n  maxFailedIndexes: 2", "true"), `^job\.batch/tolerant created\n$`, in("create", "-f", "-")...)
	expect(t, p, parts("strict", "backoffLimitPerIndex: 0\n  maxFailedIndexes: 1", "sleep 3600"), `^job\.batch/strict created\n$`, in("create", "-f", "-")...)

	expect(t, p, "", `^job\.batch/strict condition met\n$`, in("wait", "--for=condition=Failed", "--timeout=180s", "job/strict")...)
	status("strict", `;(1|3|1,3);;;5;FailureTarget=True MaxFailedIndexesExceeded Job has exceeded the specified maximal number of failed indexes;`+
		`Failed=True MaxFailedIndexesExceeded Job has exceeded the specified maximal number of failed indexes;`)
	expect(t, p, "", `^job\.batch/tolerant condition met\n$`, in("wait", "--for=condition=Failed", "--timeout=180s", "job/tolerant")...)
	status("tolerant", `0,2,4;1,3;;3;4;FailureTarget=True FailedIndexes Job has failed indexes;Failed=True FailedIndexes Job has failed indexes;`)
	expect(t, p, "", `^NAME +STATUS +COMPLETIONS +DURATION +AGE\ntolerant +Failed +3/5 +\S+ +\S+\n$`, in("get", "job", "tolerant")...)
	expect(t, p, "", `(?s)\nCompletion Mode: +Indexed\n.*\nPods Statuses: +0 Active \(0 Ready\) / 3 Succeeded / 4 Failed\nCompleted Indexes: +0,2,4\n.*Warning +FailedIndexes .* Job has failed indexes\n`,
		in("describe", "job", "tolerant")...)

	// Each pod knows its index by its name, its label, its annotation and its environment.
	rows := p.Must(t, "", in("get", "pods", "-l", "job-name=tolerant", "--sort-by=.metadata.name", "-o", `jsonpath={range .items[*]}{.metadata.name} `+
		`{.metadata.labels.batch\.kubernetes\.io/job-completion-index} {.metadata.annotations.batch\.kubernetes\.io/job-completion-index} `+
		`{.metadata.annotations.batch\.kubernetes\.io/job-index-failure-count} {.spec.hostname} {.status.phase}{"\n"}{end}`)...)
	row := func(i int, failures, phase string) string {
		return fmt.Sprintf(`tolerant-%d-\S{5} %[1]d %[1]d %[2]s tolerant-%[1]d %[3]s\n`, i, failures, phase)
	}
	want := "^" + row(0, "0", "Succeeded") + row(1, "[01]", "Failed") + row(1, "[01]", "Failed") + row(2, "0", "Succeeded") +
		row(3, "[01]", "Failed") + row(3, "[01]", "Failed") + row(4, "0", "Succeeded") + "$"
	if !regexp.MustCompile(want).MatchString(rows) {
		t.Errorf("the pods are\n%s-- want\n%s", rows, want)
	}
	for line := range strings.Lines(rows) {
		fields := strings.Fields(line)
		expect(t, p, "", "^part "+fields[1]+"\n$", in("logs", fields[0])...)
	}
	expect(t, p, "", `deleted`, "delete", "namespace", "parts", "--wait", "--timeout=180s")
}

const ticks = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: ticks}
spec:
  schedule: "* * * * *"
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 0
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          containers: [{name: tick, image: "busybox:1.36", command: [echo, tick]}]
`

// cronJobRuns waits for one run of a CronJob, and while the CronJob is suspended for the next minute.
func cronJobRuns(t *testing.T, p *plane.Plane) {
	in := func(args ...string) []string { return append(args, "-n", "ticks") }
	expect(t, p, "", `created`, "create", "namespace", "ticks")
	expect(t, p, ticks, `^cronjob\.batch/ticks created\n$`, in("create", "-f", "-")...)
	expect(t, p, "", `^NAME +SCHEDULE +TIMEZONE +SUSPEND +ACTIVE +LAST SCHEDULE +AGE\nticks +\* \* \* \* \* +<none> +False +\d +\S+ +\S+\n$`, in("get", "cronjob")...)
	expectSoon(t, p, `^ticks-\d+ Complete\n$`, in("get", "jobs", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Complete")].type}{"\n"}{end}`)...)
	expect(t, p, "", `^cronjob\.batch/ticks patched\n$`, in("patch", "cronjob", "ticks", "-p", `{"spec":{"suspend":true}}`)...)
	const last = "jsonpath={.status.lastScheduleTime}"
	suspended, err := time.Parse(time.RFC3339, p.Must(t, "", in("get", "cronjob", "ticks", "-o", last)...))
	if err != nil {
		t.Fatal(err)
	}
	run := strings.TrimSpace(p.Must(t, "", in("get", "jobs", "-o", "name", "--sort-by=.metadata.creationTimestamp")...))
	run = run[strings.LastIndex(run, "\n")+1:]
	if want := fmt.Sprintf("job.batch/ticks-%d", suspended.Unix()/60); run != want {
		t.Errorf("the run is called %s, want %s", run, want)
	}
	expectSoon(t, p, `^tick\n$`, in("logs", run)...)
	expectSoon(t, p, `(?s)Normal +SuccessfulCreate .* Created job ticks-\d+\n.*Normal +SawCompletedJob .* Saw completed job: ticks-\d+, condition: Complete\n`, in("describe", "cronjob", "ticks")...)

	// Of the runs that succeed the latest stays, of those that fail none.
	await(t, time.Now().Add(time.Second)) // Runs are ordered by their start, in whole seconds.
	expect(t, p, "", `^job\.batch/manual created\n$`, in("create", "job", "manual", "--from=cronjob/ticks")...)
	expectSoon(t, p, `^job\.batch/manual\n$`, in("get", "jobs", "-o", "name")...)
	expect(t, p, "", `^cronjob\.batch/ticks patched\n$`, in("patch", "cronjob", "ticks", "-p",
		`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"tick","command":["false"]}]}}}}}}`)...)
	expect(t, p, "", `^job\.batch/wrong created\n$`, in("create", "job", "wrong", "--from=cronjob/ticks")...)
	gone(t, p, "ticks", "job/wrong")

	await(t, suspended.Add(65*time.Second))
	expect(t, p, "", `^`+suspended.Format(time.RFC3339)+`$`, in("get", "cronjob", "ticks", "-o", last)...)
	expect(t, p, "", `^job\.batch/manual\n$`, in("get", "jobs", "-o", "name")...)
	expect(t, p, "", `^ticks +\* \* \* \* \* +<none> +True +0 `, in("get", "cronjob", "ticks", "--no-headers")...)
	expect(t, p, "", `deleted`, "delete", "namespace", "ticks", "--wait", "--timeout=180s")
}

// await waits for a moment, for what must not happen until then.
func await(t *testing.T, moment time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
