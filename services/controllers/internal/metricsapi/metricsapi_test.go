package metricsapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a metrics server with answers by path and query, and returns a client of it.
func serve(t *testing.T, answers map[string]string) *Client {
	t.Helper()
	return serveWith(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Del("timeout")
		r.URL.RawQuery = query.Encode()
		answer, found := answers[r.URL.RequestURI()]
		if !found {
			t.Logf("asked for %s", r.URL.RequestURI())
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	})
}

func serveWith(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := New(nil, Options{Server: server.URL}, func(of schema.GroupKind) (schema.GroupResource, error) {
		if of.Kind != "Ingress" {
			return schema.GroupResource{}, errors.New("there is none")
		}
		return schema.GroupResource{Group: of.Group, Resource: "ingresses"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	parsed, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

const podsPath = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"

func podMetrics(items ...string) string {
	return `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[` + strings.Join(items, ",") + `]}`
}

func podMetric(name, containers string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"timestamp":"2026-01-02T03:04:05Z","window":"30s","containers":[%s]}`, name, containers)
}

func TestResource(t *testing.T) {
	client := serve(t, map[string]string{podsPath + "?labelSelector=app%3Dweb": podMetrics(
		podMetric("both", `{"name":"a","usage":{"cpu":"100m","memory":"1Mi"}},{"name":"b","usage":{"cpu":"1"}}`),
		podMetric("none", ``),
		podMetric("partly", `{"name":"a","usage":{"cpu":"100m"}},{"name":"b","usage":{}}`),
		podMetric("much", `{"name":"a","usage":{"cpu":"9223372036854775807"}},{"name":"b","usage":{"cpu":"1e99"}}`),
		podMetric("little", `{"name":"a","usage":{"cpu":"-9223372036854775807"}},{"name":"b","usage":{"cpu":"-1E"}}`),
	)})
	for container, want := range map[string]map[string]int64{
		"":  {"both": 1100, "much": math.MaxInt64, "little": math.MinInt64},
		"a": {"both": 100, "partly": 100, "much": math.MaxInt64, "little": math.MinInt64},
		"b": {"both": 1000, "much": math.MaxInt64, "little": math.MinInt64},
		"c": {},
	} {
		got, err := client.Resource(t.Context(), corev1.ResourceCPU, "default", selector(t, "app=web"), container)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]int64{}
		for name, metric := range got {
			values[name] = metric.Value
			if metric.Window != 30*time.Second || !metric.Timestamp.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
				t.Errorf("%s was measured at %v over %v", name, metric.Timestamp, metric.Window)
			}
		}
		if !maps.Equal(values, want) {
			t.Errorf("container %q: got %v, want %v", container, values, want)
		}
	}
}

func value(of, quantity, rest string) string {
	return fmt.Sprintf(`{"describedObject":{"kind":"Pod","name":%q},"timestamp":"2026-01-02T03:04:05Z","value":%q%s}`, of, quantity, rest)
}

func values(version string, items ...string) string {
	return fmt.Sprintf(`{"kind":"MetricValueList","apiVersion":%q,"items":[%s]}`, version, strings.Join(items, ","))
}

func group(preferred string, versions ...string) string {
	var list []string
	for _, version := range versions {
		list = append(list, fmt.Sprintf(`{"groupVersion":%q}`, version))
	}
	return fmt.Sprintf(`{"kind":"APIGroup","apiVersion":"v1","preferredVersion":{"groupVersion":%q},"versions":[%s]}`, preferred, strings.Join(list, ","))
}

const (
	groupPath = "/apis/custom.metrics.k8s.io"
	v1        = "custom.metrics.k8s.io/v1beta1"
	v2        = "custom.metrics.k8s.io/v1beta2"
)

func TestCustom(t *testing.T) {
	of := &autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "front"}
	for name, c := range map[string]struct{ group, version, window string }{
		"the newest":        {group(v2, v1, v2), v2, `,"windowSeconds":90`},
		"the preferred":     {group(v1, v1, v2), v1, `,"window":90`},
		"the first known":   {group(groupPath+"/v9", v1), v1, `,"window":90`},
		"nothing preferred": {group("", v2, v1), v2, `,"windowSeconds":90`},
	} {
		t.Run(name, func(t *testing.T) {
			at := "/apis/" + c.version + "/namespaces/default"
			client := serve(t, map[string]string{
				groupPath: c.group,
				at + "/pods/%2A/qps?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET": values(c.version, value("a", "1500m", c.window), value("b", "2", "")),
				at + "/ingresses.networking.k8s.io/front/hits":                              values(c.version, value("front", "3", "")),
				at + "/metrics/load": values(c.version, value("default", "7", "")),
			})
			got, err := client.Pods(t.Context(), "qps", "default", selector(t, "app=web"), selector(t, "verb=GET"))
			if err != nil || len(got) != 2 || got["a"].Value != 1500 || got["a"].Window != 90*time.Second || got["b"].Window != time.Minute {
				t.Errorf("pods: got %v and %v", got, err)
			}
			if got, err := client.Object(t.Context(), "hits", "default", of, labels.Nothing()); err != nil || got != 3000 {
				t.Errorf("an object: got %d and %v", got, err)
			}
			namespace := &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system"}
			if got, err := client.Object(t.Context(), "load", "default", namespace, labels.Nothing()); err != nil || got != 7000 {
				t.Errorf("the namespace: got %d and %v", got, err)
			}
		})
	}
}

func TestExternal(t *testing.T) {
	client := serve(t, map[string]string{"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue?labelSelector=name%3Djobs": `{
		"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1",
		"items":[{"metricName":"queue","value":"10"},{"metricName":"queue","value":"500m"}]}`})
	got, err := client.External(t.Context(), "queue", "default", selector(t, "name=jobs"))
	if err != nil || len(got) != 2 || got[0] != 10000 || got[1] != 500 {
		t.Errorf("got %v and %v", got, err)
	}
}

// TestFaults checks what is said of what cannot be read.
func TestFaults(t *testing.T) {
	const unserved = "the server could not find the requested resource"
	resources := func(c *Client) error {
		_, err := c.Resource(t.Context(), corev1.ResourceCPU, "default", labels.Everything(), "")
		return err
	}
	pods := func(c *Client) error {
		_, err := c.Pods(t.Context(), "qps", "default", labels.Everything(), labels.Nothing())
		return err
	}
	object := func(c *Client) error {
		of := &autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "front"}
		_, err := c.Object(t.Context(), "hits", "default", of, labels.Nothing())
		return err
	}
	stranger := func(c *Client) error {
		of := &autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "one"}
		_, err := c.Object(t.Context(), "hits", "default", of, labels.Nothing())
		return err
	}
	external := func(c *Client) error {
		_, err := c.External(t.Context(), "queue", "default", labels.Everything())
		return err
	}
	at := "/apis/" + v2 + "/namespaces/default"
	for name, c := range map[string]struct {
		call    func(*Client) error
		answers map[string]string
		want    string
	}{
		"resources are not served":      {resources, nil, "unable to fetch metrics from resource metrics API: " + unserved},
		"no pods":                       {resources, map[string]string{podsPath: podMetrics()}, "no metrics returned from resource metrics API"},
		"no JSON":                       {resources, map[string]string{podsPath: "<html>"}, "unable to fetch metrics from resource metrics API: "},
		"another kind":                  {resources, map[string]string{podsPath: values(v2)}, "no metrics returned from resource metrics API"},
		"a far exponent":                {resources, map[string]string{podsPath: podMetrics(podMetric("a", `{"usage":{"cpu":"1e300000000"}}`))}, errTooFar.Error()},
		"a near exponent":               {resources, map[string]string{podsPath: podMetrics(podMetric("a", `{"usage":{"cpu": -1.5E-300000000 }}`))}, errTooFar.Error()},
		"no quantity":                   {resources, map[string]string{podsPath: podMetrics(podMetric("a", `{"usage":{"cpu":"NaN"}}`))}, "quantities must match"},
		"custom metrics are unserved":   {pods, nil, "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"},
		"custom metrics are unknown":    {pods, map[string]string{groupPath: group("custom.metrics.k8s.io/v9")}, "no known available metric versions found"},
		"versions are no JSON":          {pods, map[string]string{groupPath: "<html>"}, "reading the versions of custom.metrics.k8s.io"},
		"a custom metric is unserved":   {pods, map[string]string{groupPath: group(v2)}, "unable to fetch metrics from custom metrics API: " + unserved},
		"no custom metrics":             {pods, map[string]string{groupPath: group(v2), at + "/pods/%2A/qps": values(v2)}, "no metrics returned from custom metrics API"},
		"no metric of an object":        {object, map[string]string{groupPath: group(v2), at + "/ingresses.networking.k8s.io/front/hits": values(v2)}, "the custom metrics API server returned 0 results when we asked for exactly one"},
		"an unknown kind":               {stranger, map[string]string{groupPath: group(v2)}, "unable to map kind Thing.example.com to resource: there is none"},
		"external metrics are unserved": {external, nil, "unable to fetch metrics from external metrics API: " + unserved},
		"no external metrics": {external, map[string]string{"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue": `{
			"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1"}`}, "no metrics returned from external metrics API"},
	} {
		if err := c.call(serve(t, c.answers)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestAnswersAreBounded checks that an answer without an end is given up.
func TestAnswersAreBounded(t *testing.T) {
	client := serveWith(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for r.Context().Err() == nil {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	})
	_, err := client.Resource(t.Context(), corev1.ResourceCPU, "default", labels.Everything(), "")
	if err == nil || !strings.Contains(err.Error(), errTooLong.Error()) {
		t.Errorf("got %v", err)
	}
}

// TestCallsEndWithTheirContext checks that a server that does not answer holds nobody up.
func TestCallsEndWithTheirContext(t *testing.T) {
	asked, done := make(chan struct{}), make(chan struct{})
	client := serveWith(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(done)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := client.External(ctx, "queue", "default", labels.Everything())
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-done
}

// TestTheServerGetsItsToken checks that a server is called with its token, by its certificate.
func TestTheServerGetsItsToken(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || !strings.HasPrefix(r.URL.Path, "/behind/apis/") {
			http.Error(w, "refused", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, podMetrics(podMetric("a", `{"usage":{"cpu":"1"}}`)))
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pemOf(server), 0o600); err != nil {
		t.Fatal(err)
	}
	// What leads to the plane must not lead to the server too.
	plane := &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "the plane's"}
	client, err := New(plane, Options{Server: server.URL + "/behind", CAFile: ca, TokenFile: token}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(t.Context(), corev1.ResourceCPU, "default", labels.Everything(), ""); err != nil {
		t.Error(err)
	}
	if _, err := New(plane, Options{Server: server.URL, CAFile: token}, nil); err == nil {
		t.Error("a file without a certificate is accepted")
	}
	server.CloseClientConnections()
}

// TestThePlaneIsAskedByDefault checks that without a server the plane's API is asked.
func TestThePlaneIsAskedByDefault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, podMetrics(podMetric("a", `{"usage":{"cpu":"1"}}`)))
	}))
	t.Cleanup(server.Close)
	client, err := New(&rest.Config{Host: server.URL}, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(t.Context(), corev1.ResourceCPU, "default", labels.Everything(), ""); err != nil {
		t.Error(err)
	}
	if _, err := New(nil, Options{}, nil); err == nil {
		t.Error("a client without an address is made")
	}
}

func TestOptions(t *testing.T) {
	for server, want := range map[string]string{
		"":                           "",
		"https://metrics.example":    "",
		"https://metrics.example/a":  "",
		"http://127.0.0.1:8080":      "",
		"metrics.example":            "must be a URL",
		"ftp://metrics.example":      "must be a URL",
		"https://":                   "must be a URL",
		"https://a:b@metrics":        "must be a URL",
		"https://metrics.example?a":  "must be a URL",
		"https://metrics.example#a":  "must be a URL",
		"https://metrics.example:no": "invalid port",
	} {
		err := Options{Server: server}.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v", server, err)
		}
		if err != nil && strings.Contains(err.Error(), "a:b") {
			t.Errorf("%q: the error has the password", server)
		}
	}
	for _, o := range []Options{{TokenFile: "x"}, {CAFile: "x"}, {Server: "http://metrics", TokenFile: "x"}, {Server: "http://metrics", CAFile: "x"}} {
		if o.Check() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestMilli(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1000, "1m": 1, "1u": 1, "-1500m": -1500, "0": 0, "9223372036854": 9223372036854000, "9223372036854776": math.MaxInt64,
		"8E": math.MaxInt64, "-8E": math.MinInt64, "1e99": math.MaxInt64, "1e-99": 1,
	} {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := milli(&q); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
