package replicacalculator

import (
	"context"
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
)

// Utilization computes replicas for a target of a resource's use, in percent of what pods request. If
// container is not empty, only that one counts.
func (c *Calculator) Utilization(ctx context.Context, w Workload, of corev1.ResourceName, container string,
	target int32) (Proposal, error) {
	metrics, err := c.Metrics.Resource(ctx, of, w.Namespace, w.Selector, container)
	if err != nil {
		return Proposal{}, fmt.Errorf("unable to get metrics for resource %s: %w", of, err)
	}
	return c.propose(w, metrics, of, func(pods []*corev1.Pod) (scale, error) {
		requests, err := requests(pods, container, of)
		return utilization{requests, target}, err
	})
}

// ResourceUsage computes replicas for a target of a resource's use by a pod, in thousandths.
func (c *Calculator) ResourceUsage(ctx context.Context, w Workload, of corev1.ResourceName, container string,
	target int64) (Proposal, error) {
	metrics, err := c.Metrics.Resource(ctx, of, w.Namespace, w.Selector, container)
	if err != nil {
		return Proposal{}, fmt.Errorf("unable to get metrics for resource %s: %w", of, err)
	}
	return c.propose(w, metrics, of, func([]*corev1.Pod) (scale, error) { return usage{target}, nil })
}

// PodsMetric computes replicas for a target of a metric's average over pods, in thousandths.
func (c *Calculator) PodsMetric(ctx context.Context, w Workload, metric string, metricSelector labels.Selector,
	target int64) (Proposal, error) {
	metrics, err := c.Metrics.Pods(ctx, metric, w.Namespace, w.Selector, metricSelector)
	if err != nil {
		return Proposal{}, fmt.Errorf("unable to get metric %s: %w", metric, err)
	}
	return c.propose(w, metrics, "", func([]*corev1.Pod) (scale, error) { return usage{target}, nil })
}

// scale is how a metric of pods is read.
type scale interface {
	// read returns the ratio of what pods use to their target, and what the status shows of it.
	read(metrics metricsapi.PodMetrics) (ratio float64, shown Proposal, err error)
	// full returns what a pod uses, at most, that is at its target.
	full(pod string) int64
}

// utilization reads the use of a resource in percent of requests, by pod in thousandths.
type utilization struct {
	requests map[string]int64
	target   int32
}

func (u utilization) read(metrics metricsapi.PodMetrics) (float64, Proposal, error) {
	var used, requested, pods int64
	for name, metric := range metrics {
		request, found := u.requests[name]
		if !found {
			continue // It is no pod of the workload.
		}
		used, requested, pods = add(used, metric.Value), add(requested, request), pods+1
	}
	if requested == 0 {
		return 0, Proposal{}, errors.New("no metrics returned matched known pods")
	}
	percent := scaled(used, 100, requested)
	shown := Proposal{Usage: used / pods, Utilization: int32(min(max(percent, math.MinInt32), math.MaxInt32))}
	return float64(shown.Utilization) / float64(u.target), shown, nil
}

func (u utilization) full(pod string) int64 {
	return scaled(u.requests[pod], int64(max(100, u.target)), 100)
}

// usage reads the average of a metric. Target is in thousandths.
type usage struct{ target int64 }

func (u usage) read(metrics metricsapi.PodMetrics) (float64, Proposal, error) {
	var used int64
	for _, metric := range metrics {
		used = add(used, metric.Value)
	}
	average := used / int64(len(metrics))
	return float64(average) / float64(u.target), Proposal{Usage: average}, nil
}

func (u usage) full(string) int64 { return u.target }

// propose computes replicas from metrics of pods, which it changes. Pods without a metric, and unready ones,
// count so that they make the change smaller, and never turn it round.
func (c *Calculator) propose(w Workload, metrics metricsapi.PodMetrics, of corev1.ResourceName,
	newScale func([]*corev1.Pod) (scale, error)) (Proposal, error) {
	pods := w.Pods()
	if len(pods) == 0 {
		return Proposal{}, errNoPods
	}
	g := c.group(pods, metrics, of)
	for _, name := range append(g.ignored, g.unready...) {
		delete(metrics, name)
	}
	if len(metrics) == 0 {
		return Proposal{}, errNoReadings
	}
	s, err := newScale(pods)
	if err != nil {
		return Proposal{}, err
	}
	ratio, proposal, err := s.read(metrics)
	if err != nil {
		return Proposal{}, err
	}
	proposal.Replicas = w.Replicas
	unreadyToo := len(g.unready) > 0 && ratio > 1
	if !unreadyToo && len(g.missing) == 0 {
		if !w.Tolerance.allows(ratio) {
			proposal.Replicas = ceil(ratio * float64(g.ready))
		}
		return proposal, nil
	}
	for _, name := range g.missing {
		switch {
		case ratio < 1:
			metrics[name] = metricsapi.PodMetric{Value: s.full(name)}
		case ratio > 1:
			metrics[name] = metricsapi.PodMetric{}
		}
	}
	if unreadyToo {
		for _, name := range g.unready {
			metrics[name] = metricsapi.PodMetric{}
		}
	}
	careful, _, err := s.read(metrics)
	if err != nil {
		return Proposal{}, err
	}
	if w.Tolerance.allows(careful) || ratio < 1 && careful > 1 || ratio > 1 && careful < 1 {
		return proposal, nil
	}
	replicas := ceil(careful * float64(len(metrics)))
	if careful < 1 && replicas > w.Replicas || careful > 1 && replicas < w.Replicas {
		return proposal, nil
	}
	proposal.Replicas = replicas
	return proposal, nil
}
