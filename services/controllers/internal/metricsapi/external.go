package metricsapi

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	externalmetricsv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// External returns the selected values of a metric that belongs to no object, in thousandths.
func (c *Client) External(ctx context.Context, metric, namespace string, selector labels.Selector) ([]int64, error) {
	clients, err := c.clients()
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	list := &externalmetricsv1beta1.ExternalMetricValueList{}
	request := selecting(clients.external.Get().Namespace(namespace).Resource(metric), labelSelector, selector)
	if err := request.Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	values := make([]int64, len(list.Items))
	for i := range list.Items {
		values[i] = milli(&list.Items[i].Value)
	}
	return values, nil
}
