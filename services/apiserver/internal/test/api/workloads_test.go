package api_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestWorkloadsOverHTTP writes and reads workloads as a client does.
func TestWorkloadsOverHTTP(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	s.CreatePod(admin)
	const core, apps, batch, first, second = "/api/v1/namespaces/default/", "/apis/apps/v1/namespaces/default/", "/apis/batch/v1/namespaces/default/",
		"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	const js, merge, strategic = "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"
	const template = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	const jobSpec = `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`
	for _, tc := range []struct {
		name, method, path, kind, body string
		code                           int
		says                           string
	}{
		{"a stateful set", "POST", apps + "statefulsets", js, `{"metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"a":"b"}},"serviceName":"x",` + template + `}}`, 201, `"podManagementPolicy":"OrderedReady"`},
		{"its scale", "PATCH", apps + "statefulsets/s/scale", merge, `{"spec":{"replicas":4}}`, 200, `"selector":"a=b"`},
		{"its service", "PATCH", apps + "statefulsets/s", merge, `{"spec":{"serviceName":"y"}}`, 422, `spec.serviceName: Invalid value: \"y\": field is immutable`},
		{"a replication controller", "POST", core + "replicationcontrollers", js, `{"metadata":{"name":"r"},"spec":{` + template + `}}`, 201, `"selector":{"a":"b"}`},
		{"its scale", "PATCH", core + "replicationcontrollers/r/scale", merge, `{"spec":{"replicas":3}}`, 200, `"replicas":3`},
		{"by its replicas", "GET", core + "replicationcontrollers?fieldSelector=status.replicas%3D0", js, "", 200, `"name":"r"`},
		{"its deletion", "DELETE", core + "replicationcontrollers/r", js, "", 200, `"finalizers":["orphan"]`},
		{"a daemon set", "POST", apps + "daemonsets", js, `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},` + template + `}}`, 201, `"deprecated.daemonset.template.generation":"1"`},
		{"a bad job", "POST", batch + "jobs", js, `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 422, `spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"`},
		{"a job", "POST", batch + "jobs", js, `{"metadata":{"name":"j"},"spec":` + jobSpec + `}`, 201, `"batch.kubernetes.io/job-name":"j"`},
		{"a job without a name", "POST", batch + "jobs", js, `{"metadata":{"generateName":"g-"},"spec":` + jobSpec + `}`, 201, `"batch.kubernetes.io/job-name":"g-`},
		{"another number of completions", "PATCH", batch + "jobs/j", merge, `{"spec":{"completions":5}}`, 422, "spec.completions: Invalid value: 5: field is immutable"},
		{"jobs that succeeded", "GET", batch + "jobs?fieldSelector=status.successful%3D1", js, "", 200, `"items":[]`},
		{"a cron job", "POST", batch + "cronjobs", js, `{"metadata":{"name":"c"},"spec":{"schedule":"*/5 * * * *","timeZone":"Asia/Tokyo","jobTemplate":{"spec":` + jobSpec + `}}}`, 201, `"concurrencyPolicy":"Allow"`},
		{"a bad schedule", "PATCH", batch + "cronjobs/c", merge, `{"spec":{"schedule":"61 * * * *"}}`, 422, "end of range (61) above maximum (59): 61"},

		{"an autoscaler", "POST", first, js, `{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"w"},"maxReplicas":5}}`, 201, `"targetCPUUtilizationPercentage":80`},
		{"its second version", "GET", second + "/h", js, "", 200, `"averageUtilization":80`},
		{"with memory", "PATCH", second + "/h", merge, `{"spec":{"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}]}}`, 200, "1Gi"},
		{"as an annotation", "GET", first + "/h", js, "", 200, `"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"targetAverageValue\":\"1Gi\"}}]"`},
		{"with CPU too", "PATCH", first + "/h", merge, `{"spec":{"targetCPUUtilizationPercentage":50}}`, 200, `"targetCPUUtilizationPercentage":50`},
		{"both", "GET", second + "/h", js, "", 200, `"averageUtilization":50`},
		{"its list", "GET", first, js, "", 200, `"kind":"HorizontalPodAutoscalerList"`},
		{"its status", "PATCH", first + "/h/status", merge, `{"status":{"currentReplicas":2,"desiredReplicas":3}}`, 200, `"currentReplicas":2`},
		{"a bad one", "PATCH", first + "/h", merge, `{"spec":{"maxReplicas":0}}`, 422, "spec.maxReplicas: Required value"},

		{"a debugger", "PATCH", core + "pods/p/ephemeralcontainers", strategic, `{"spec":{"ephemeralContainers":[{"name":"e","image":"busybox"}]}}`, 200, `"ephemeralContainers":[{"name":"e"`},
		{"another debugger of its name", "PATCH", core + "pods/p/ephemeralcontainers", strategic, `{"spec":{"ephemeralContainers":[{"name":"e","image":"other"}]}}`, 422, `existing ephemeral containers \"e\" may not be changed`},
		{"what is there", "GET", core + "pods/p/ephemeralcontainers", js, "", 200, `"kind":"Pod"`},
		{"its size", "GET", core + "pods/p/resize", js, "", 200, `"kind":"Pod"`},
		{"more of nothing", "PATCH", core + "pods/p/resize", merge, `{"spec":{"resources":{"requests":{"cpu":"1"}}}}`, 422, "Pod QOS Class may not change as a result of resizing"},
		{"its status", "GET", core + "pods/p/status", js, "", 200, `"kind":"Pod"`},
	} {
		res, body := s.Exchange(admin, tc.method, tc.path, tc.body, map[string]string{"Content-Type": tc.kind})
		if res.StatusCode != tc.code || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s", tc.name, res.StatusCode, body)
		}
	}
}
