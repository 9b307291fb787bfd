// Package metricsapi reads what pods use and other measured values from the APIs metrics.k8s.io,
// custom.metrics.k8s.io and external.metrics.k8s.io. They are served by the plane's own API, or by a metrics
// server at an address of its own.
//
// The types are those of k8s.io/metrics. Its clients are not used: they take no context, so that a server
// that hangs would hold up the end of a term.
//
// Whoever serves metrics is not trusted: answers are bounded in size and time, and quantities that do not fit
// become the nearest that do.
package metricsapi

import (
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	custommetricsv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	custommetricsv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetricsv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

const (
	// maxAnswer bounds an answer, in bytes. That of metrics-server has about 500 for each pod.
	maxAnswer = 32 << 20
	// patience bounds how long a call may take.
	patience = 10 * time.Second
)

// PodMetric is a value that was measured for a pod.
type PodMetric struct {
	// Timestamp is when it was measured, over the time Window before.
	Timestamp time.Time
	Window    time.Duration
	// Value is in thousandths.
	Value int64
}

// PodMetrics are measured values by the names of their pods.
type PodMetrics map[string]PodMetric

// Client reads metrics. It is safe for concurrent use.
type Client struct {
	clients func() (*clients, error)
	// resource returns the resource that serves a kind.
	resource func(schema.GroupKind) (schema.GroupResource, error)

	mu     sync.Mutex
	served customVersion
}

// clients are those of the groups.
type clients struct {
	resources, external *rest.RESTClient
	custom              map[schema.GroupVersion]*rest.RESTClient
}

// New returns a client of the API that config leads to, or of the server that options name, whose files it
// reads. It finds resources of kinds with the function resource. It opens no connection.
func New(config *rest.Config, options Options, resource func(schema.GroupKind) (schema.GroupResource, error)) (*Client, error) {
	config, err := options.config(config)
	if err != nil {
		return nil, err
	}
	c := &Client{clients: sync.OnceValues(func() (*clients, error) { return newClients(config) }), resource: resource}
	if options.Server != "" { // Faults of the plane's own address show elsewhere.
		_, err = c.clients()
	}
	return c, err
}

func newClients(config *rest.Config) (*clients, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		metricsv1beta1.AddToScheme, custommetricsv1beta1.AddToScheme, custommetricsv1beta2.AddToScheme, externalmetricsv1beta1.AddToScheme,
	} {
		if err := add(types); err != nil {
			return nil, fmt.Errorf("registering the types of metrics: %w", err)
		}
	}
	metav1.AddToGroupVersion(types, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	made := map[schema.GroupVersion]*rest.RESTClient{}
	for _, gv := range append(customVersions(), metricsv1beta1.SchemeGroupVersion, externalmetricsv1beta1.SchemeGroupVersion) {
		one := rest.CopyConfig(config)
		one.GroupVersion, one.APIPath = &gv, "/apis"
		client, err := rest.RESTClientFor(one)
		if err != nil {
			return nil, fmt.Errorf("creating a client of %s: %w", gv, err)
		}
		made[gv] = client
	}
	return &clients{made[metricsv1beta1.SchemeGroupVersion], made[externalmetricsv1beta1.SchemeGroupVersion], made}, nil
}

// milli returns a quantity in thousandths; the nearest number that there is if it does not fit.
func milli(q *resource.Quantity) int64 {
	switch approximate := q.AsApproximateFloat64() * 1000; {
	case approximate >= math.MaxInt64:
		return math.MaxInt64
	case approximate <= math.MinInt64:
		return math.MinInt64
	}
	return q.MilliValue()
}

// sum adds values; the result is the nearest number that there is if it does not fit.
func sum(a, b int64) int64 {
	switch {
	case a > 0 && b > math.MaxInt64-a:
		return math.MaxInt64
	case a < 0 && b < math.MinInt64-a:
		return math.MinInt64
	}
	return a + b
}
