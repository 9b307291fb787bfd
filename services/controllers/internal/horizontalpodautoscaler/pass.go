package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pass is one reconcile of an autoscaler.
type pass struct {
	*reconciler
	// hpa is a copy, whose status the pass changes.
	hpa     *autoscalingv2.HorizontalPodAutoscaler
	history *history
	now     time.Time
	// readings are the metrics' statuses.
	readings []autoscalingv2.MetricStatus
}

// decision is how many replicas there shall be.
type decision struct {
	replicas int32
	// rescale means that it is not the number that there is, for a reason.
	rescale bool
	reason  string
}

// reference names the target in errors.
func (p *pass) reference() string {
	return fmt.Sprintf("%s/%s/%s", p.hpa.Spec.ScaleTargetRef.Kind, p.hpa.Namespace, p.hpa.Spec.ScaleTargetRef.Name)
}

// least returns the lower bound of replicas.
func (p *pass) least() int32 {
	if p.hpa.Spec.MinReplicas != nil {
		return *p.hpa.Spec.MinReplicas
	}
	return 1
}

// run scales the target, if that is needed, and writes the status. It returns what it did.
func (p *pass) run(ctx context.Context) (action string, err error) {
	before := p.hpa.Status.DeepCopy()
	t, err := p.target(ctx)
	if err != nil {
		return actionNone, errors.Join(err, p.write(ctx, before))
	}
	p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	current := t.scale.Spec.Replicas
	p.history.first(current, p.now)
	next, certain, partial := p.decide(ctx, t)
	if !certain {
		p.setStatus(current, p.hpa.Status.DesiredReplicas, false)
		fault := p.write(ctx, before)
		p.warn("FailedComputeMetricsReplicas", "%s", partial)
		partial = fmt.Errorf("failed to compute desired number of replicas based on listed metrics for %s: %w", p.reference(), partial)
		return actionNone, errors.Join(partial, fault)
	}
	action = actionNone
	if next.rescale {
		if err := p.rescale(ctx, t, current, next); err != nil {
			p.setStatus(current, p.hpa.Status.DesiredReplicas, false)
			return actionNone, errors.Join(err, p.write(ctx, before))
		}
		action = actionOf(current, next.replicas)
	} else {
		next.replicas = current
	}
	p.setStatus(current, next.replicas, next.rescale)
	p.metrics.desired.WithLabelValues(p.hpa.Namespace, p.hpa.Name).Set(float64(next.replicas))
	return action, errors.Join(partial, p.write(ctx, before))
}

// decide decides on the number of replicas. It is not certain if no metric could be read that allows to
// decide; else the error tells of those that could not.
func (p *pass) decide(ctx context.Context, t *target) (next decision, certain bool, err error) {
	current, least, most := t.scale.Spec.Replicas, p.least(), p.hpa.Spec.MaxReplicas
	byItself := p.scaledToZero()
	switch {
	case current == 0 && (!byItself || least == 0 && !p.wakes()):
		p.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		return decision{}, true, nil
	case current > most:
		return decision{replicas: most, rescale: true, reason: "Current number of replicas above Spec.MaxReplicas"}, true, nil
	case current != 0 && current < least:
		return decision{replicas: least, rescale: true, reason: belowMin}, true, nil
	}
	wanted, metric, certain, err := p.measure(ctx, t)
	if !certain {
		return decision{}, false, err
	}
	switch {
	case wanted > current:
		next.reason = metric + " above target"
	case wanted < current:
		next.reason = "All metrics below target"
	}
	if p.hpa.Spec.Behavior == nil {
		next.replicas = p.limit(current, wanted)
	} else {
		next.replicas = p.limitByBehavior(current, wanted)
	}
	if current == 0 && next.replicas < least {
		next.replicas = least
		if next.reason == "" {
			next.reason = belowMin
		}
	}
	next.rescale = next.replicas != current
	return next, true, err
}

const belowMin = "Current number of replicas below Spec.MinReplicas"

// scaledToZero reports whether the controller itself scaled the target to zero.
func (p *pass) scaledToZero() bool {
	for i := range p.hpa.Status.Conditions {
		if c := &p.hpa.Status.Conditions[i]; c.Type == autoscalingv2.ScaledToZero {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wakes reports whether the autoscaler has a metric that can be measured while there are no pods.
func (p *pass) wakes() bool {
	for i := range p.hpa.Spec.Metrics {
		if of := p.hpa.Spec.Metrics[i].Type; of == autoscalingv2.ObjectMetricSourceType || of == autoscalingv2.ExternalMetricSourceType {
			return true
		}
	}
	return false
}

// rescale writes the number of replicas into the target's scale.
func (p *pass) rescale(ctx context.Context, t *target, current int32, next decision) error {
	if err := p.writeScale(ctx, t, next.replicas); err != nil {
		p.warn("FailedRescale", "New size: %d; reason: %s; error: %v", next.replicas, next.reason, err)
		p.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale", "the HPA controller was unable to update the target scale: %v", err)
		return fmt.Errorf("failed to rescale %s: %w", p.reference(), err)
	}
	p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale", "the HPA controller was able to update the target scale to %d", next.replicas)
	p.events.Event(p.hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", next.replicas, next.reason)
	p.history.rescaled(p.hpa.Spec.Behavior, current, next.replicas, p.now)
	p.logger.InfoContext(ctx, "rescaled", "namespace", p.hpa.Namespace, "name", p.hpa.Name, "target", p.reference(),
		"from", current, "to", next.replicas, "reason", next.reason)
	if current > 0 && next.replicas == 0 && p.least() == 0 && p.wakes() {
		p.set(autoscalingv2.ScaledToZero, corev1.ConditionTrue, "ScaledToZero", "the HPA controller scaled the workload to zero")
	} else {
		p.set(autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
	}
	return nil
}

// setStatus sets all of the status but its conditions.
func (p *pass) setStatus(current, desired int32, rescaled bool) {
	status := &p.hpa.Status
	status.CurrentReplicas, status.DesiredReplicas, status.CurrentMetrics = current, desired, p.readings
	status.ObservedGeneration = new(p.hpa.Generation)
	if rescaled {
		status.LastScaleTime = &metav1.Time{Time: p.now}
	}
}

// write writes the status, if it has changed.
func (p *pass) write(ctx context.Context, before *autoscalingv2.HorizontalPodAutoscalerStatus) error {
	if equality.Semantic.DeepEqual(before, &p.hpa.Status) {
		return nil
	}
	if _, err := p.autoscalers.Client.UpdateStatus(ctx, p.hpa, metav1.UpdateOptions{}); err != nil {
		p.warn("FailedUpdateStatus", "%s", err)
		return fmt.Errorf("failed to update status for %s: %w", p.hpa.Name, err)
	}
	return nil
}

func (p *pass) warn(reason, format string, args ...any) {
	p.events.Event(p.hpa, corev1.EventTypeWarning, reason, format, args...)
}

// set sets a condition.
func (p *pass) set(of autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus,
	reason, format string, args ...any) {
	conditions := &p.hpa.Status.Conditions
	at := -1
	for i := range *conditions {
		if (*conditions)[i].Type == of {
			at = i
			break
		}
	}
	if at < 0 {
		*conditions = append(*conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: of})
		at = len(*conditions) - 1
	}
	c := &(*conditions)[at]
	if c.Status != status {
		c.LastTransitionTime = metav1.Time{Time: p.now}
	}
	c.Status, c.Reason, c.Message = status, reason, fmt.Sprintf(format, args...)
}
