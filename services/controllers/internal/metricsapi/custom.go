package metricsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	custommetricsv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	custommetricsv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
)

const (
	// defaultWindow is that of a custom metric that names none (Kubernetes, metricServerDefaultMetricWindow).
	defaultWindow = time.Minute
	// longestWindow bounds the window of a custom metric.
	longestWindow = 365 * 24 * time.Hour
	// versionAge is how long the version of custom metrics that is served counts as known.
	versionAge = 15 * time.Second
)

// customVersions are the versions of custom metrics that the client understands, the best first.
func customVersions() []schema.GroupVersion {
	return []schema.GroupVersion{custommetricsv1beta2.SchemeGroupVersion, custommetricsv1beta1.SchemeGroupVersion}
}

// customVersion is the version of custom metrics that is served.
type customVersion struct {
	version schema.GroupVersion
	until   time.Time
}

// preferred returns the client of the version of custom metrics that is preferred, of those that it understands.
func (c *Client) preferred(ctx context.Context) (*rest.RESTClient, schema.GroupVersion, error) {
	clients, err := c.clients()
	if err != nil {
		return nil, schema.GroupVersion{}, err
	}
	version, err := c.version(ctx, clients)
	return clients.custom[version], version, err
}

// version asks which version of custom metrics is preferred.
func (c *Client) version(ctx context.Context, clients *clients) (schema.GroupVersion, error) {
	c.mu.Lock()
	known := c.served
	c.mu.Unlock()
	if time.Now().Before(known.until) {
		return known.version, nil
	}
	const name = custommetricsv1beta2.GroupName
	data, err := clients.resources.Get().AbsPath("/apis/" + name).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return schema.GroupVersion{}, fmt.Errorf("no custom metrics API (%s) registered", name)
	case err != nil:
		return schema.GroupVersion{}, err
	}
	group := metav1.APIGroup{}
	if err := json.Unmarshal(data, &group); err != nil {
		return schema.GroupVersion{}, fmt.Errorf("reading the versions of %s: %w", name, err)
	}
	for _, served := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
		for _, version := range customVersions() {
			if served.GroupVersion == version.String() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.served = customVersion{version, time.Now().Add(versionAge)}
				return version, nil
			}
		}
	}
	return schema.GroupVersion{}, errors.New("no known available metric versions found")
}

// Pods returns a custom metric of the selected pods of a namespace.
func (c *Client) Pods(ctx context.Context, metric, namespace string, selector, metricSelector labels.Selector) (PodMetrics, error) {
	client, version, err := c.preferred(ctx)
	if err != nil {
		return nil, unfetched(err)
	}
	request := client.Get().Resource("pods").Namespace(namespace).Name(custommetricsv1beta2.AllObjects).SubResource(metric)
	values, err := customValues(ctx, selecting(request, labelSelector, selector), metricSelector, version)
	if err != nil {
		return nil, unfetched(err)
	}
	if len(values) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	metrics := make(PodMetrics, len(values))
	for i := range values {
		value := &values[i]
		window := defaultWindow
		if seconds := value.WindowSeconds; seconds != nil {
			window = time.Duration(min(max(*seconds, 0), int64(longestWindow/time.Second))) * time.Second
		}
		metrics[value.DescribedObject.Name] = PodMetric{Timestamp: value.Timestamp.Time, Window: window, Value: milli(&value.Value)}
	}
	return metrics, nil
}

// Object returns a custom metric of an object in a namespace, or of the namespace itself, in thousandths.
func (c *Client) Object(ctx context.Context, metric, namespace string, of *autoscalingv2.CrossVersionObjectReference,
	metricSelector labels.Selector) (int64, error) {
	client, version, err := c.preferred(ctx)
	if err != nil {
		return 0, unfetched(err)
	}
	kind, request := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind(), client.Get()
	if kind.Kind == "Namespace" && kind.Group == "" {
		// No name can lead out of the autoscaler's namespace.
		request = request.Resource("metrics").Namespace(namespace).Name(metric)
	} else {
		resource, err := c.resource(kind)
		if err != nil {
			return 0, unfetched(fmt.Errorf("unable to map kind %s to resource: %w", kind, err))
		}
		request = request.Resource(resource.String()).Namespace(namespace).Name(of.Name).SubResource(metric)
	}
	values, err := customValues(ctx, request, metricSelector, version)
	switch {
	case err != nil:
		return 0, unfetched(err)
	case len(values) != 1:
		return 0, unfetched(fmt.Errorf("the custom metrics API server returned %v results when we asked for exactly one", len(values)))
	}
	return milli(&values[0].Value), nil
}

func unfetched(err error) error {
	return fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
}

// customValues reads values in a version, as those of the newest.
func customValues(ctx context.Context, request *rest.Request, metricSelector labels.Selector,
	version schema.GroupVersion) ([]custommetricsv1beta2.MetricValue, error) {
	request = selecting(request, "metricLabelSelector", metricSelector)
	if version == custommetricsv1beta2.SchemeGroupVersion {
		list := &custommetricsv1beta2.MetricValueList{}
		err := request.Do(ctx).Into(list)
		return list.Items, err
	}
	list := &custommetricsv1beta1.MetricValueList{}
	if err := request.Do(ctx).Into(list); err != nil {
		return nil, err
	}
	values := make([]custommetricsv1beta2.MetricValue, len(list.Items))
	for i := range list.Items {
		old := &list.Items[i]
		values[i] = custommetricsv1beta2.MetricValue{
			DescribedObject: old.DescribedObject, Timestamp: old.Timestamp, WindowSeconds: old.WindowSeconds, Value: old.Value,
		}
	}
	return values, nil
}
