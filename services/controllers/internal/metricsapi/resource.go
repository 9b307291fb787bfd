package metricsapi

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// labelSelector is the parameter that selects objects.
const labelSelector = "labelSelector"

// selecting adds a parameter with a selector, unless it selects everything.
func selecting(request *rest.Request, parameter string, selector labels.Selector) *rest.Request {
	if text := selector.String(); text != "" {
		return request.Param(parameter, text)
	}
	return request
}

// Resource returns how much of a resource the selected pods of a namespace use: all their containers, or, if
// it is not empty, the one with a name. Pods of which not all is known are missing.
func (c *Client) Resource(ctx context.Context, of corev1.ResourceName, namespace string, selector labels.Selector,
	container string) (PodMetrics, error) {
	clients, err := c.clients()
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	list := &metricsv1beta1.PodMetricsList{}
	request := selecting(clients.resources.Get().Namespace(namespace).Resource("pods"), labelSelector, selector)
	if err := request.Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	metrics := make(PodMetrics, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		if value, known := usage(pod.Containers, of, container); known {
			metrics[pod.Name] = PodMetric{Timestamp: pod.Timestamp.Time, Window: pod.Window.Duration, Value: value}
		}
	}
	return metrics, nil
}

// usage returns what a pod uses of a resource, or one of its containers; false if that is not known.
func usage(containers []metricsv1beta1.ContainerMetrics, of corev1.ResourceName, container string) (total int64, known bool) {
	for i := range containers {
		c := &containers[i]
		if container != "" && c.Name != container {
			continue
		}
		used, found := c.Usage[of]
		if !found {
			return 0, false
		}
		total, known = sum(total, milli(&used)), true
		if container != "" {
			break
		}
	}
	return total, known
}
