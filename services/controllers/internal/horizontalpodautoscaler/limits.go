package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

const (
	// Without a behavior a target at most doubles at a time, but may always get as many replicas as
	// scaleUpMinimum (Kubernetes, scaleUpLimitFactor and scaleUpLimitMinimum).
	scaleUpFactor  = 2
	scaleUpMinimum = 4
)

// verdict is a number of replicas within limits, and the condition that says which of them counted.
type verdict struct {
	replicas        int32
	reason, message string
}

func within(replicas int32) verdict {
	return verdict{replicas, "DesiredWithinRange", "the desired count is within the acceptable range"}
}

func tooFew(least int32) verdict {
	return verdict{least, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
}

func tooMany(most int32) verdict {
	return verdict{most, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
}

func tooFastUp(limit int32) verdict {
	return verdict{limit, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
}

func tooFastDown(limit int32) verdict {
	return verdict{limit, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
}

const (
	stabilizedDown = "recent recommendations were higher than current one, applying the highest recent recommendation"
	stabilizedUp   = "recent recommendations were lower than current one, applying the lowest recent recommendation"
)

// limited sets the conditions that say what became of a recommendation: how it was stabilized, and limited.
func (p *pass) limited(wanted, stabilized int32, reason, message string, v verdict) int32 {
	if stabilized == wanted {
		reason, message = "ReadyForNewScale", "recommended size matches current size"
	}
	p.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, reason, "%s", message)
	status := corev1.ConditionTrue
	if v.replicas == stabilized {
		status = corev1.ConditionFalse
	}
	p.set(autoscalingv2.ScalingLimited, status, v.reason, "%s", v.message)
	return v.replicas
}

// limit limits a recommendation for an autoscaler without a behavior.
func (p *pass) limit(current, wanted int32) int32 {
	window := p.options.DownscaleStabilization
	stabilized, since := wanted, p.now.Add(-window)
	for _, one := range p.history.recommended {
		if !one.at.Before(since) {
			stabilized = max(stabilized, one.replicas)
		}
	}
	p.history.recommend(wanted, p.now, window)
	upper := tooMany(p.hpa.Spec.MaxReplicas)
	if fastest := saturate(max(scaleUpFactor*int64(current), scaleUpMinimum)); fastest < upper.replicas {
		upper = tooFastUp(fastest)
	}
	v := within(stabilized)
	switch {
	case stabilized < p.least():
		v = tooFew(p.least())
	case stabilized > upper.replicas:
		v = upper
	}
	return p.limited(wanted, stabilized, "ScaleDownStabilized", stabilizedDown, v)
}

// limitByBehavior limits a recommendation for an autoscaler with a behavior.
func (p *pass) limitByBehavior(current, wanted int32) int32 {
	up, down := p.rules()
	stabilized := p.stabilize(current, wanted, up, down)
	reason, message := "ScaleUpStabilized", stabilizedUp
	if wanted < current {
		reason, message = "ScaleDownStabilized", stabilizedDown
	}
	v := within(stabilized)
	switch {
	case stabilized > current:
		upper := tooMany(p.hpa.Spec.MaxReplicas)
		if fastest := max(p.fastest(current, up, 1), current); fastest < upper.replicas {
			upper = tooFastUp(fastest)
		}
		if stabilized > upper.replicas {
			v = upper
		}
	case stabilized < current:
		lower := tooFew(p.least())
		if fastest := min(p.fastest(current, down, -1), current); fastest > lower.replicas {
			lower = tooFastDown(fastest)
		}
		if stabilized < lower.replicas {
			v = lower
		}
	}
	return p.limited(wanted, stabilized, reason, message, v)
}

// rules returns the rules of an autoscaler's behavior, whose windows the controller chooses if they are unset.
func (p *pass) rules() (up, down autoscalingv2.HPAScalingRules) {
	if rules := p.hpa.Spec.Behavior.ScaleUp; rules != nil {
		up = *rules
	}
	if rules := p.hpa.Spec.Behavior.ScaleDown; rules != nil {
		down = *rules
	}
	if up.StabilizationWindowSeconds == nil {
		up.StabilizationWindowSeconds = new(int32(0))
	}
	if down.StabilizationWindowSeconds == nil {
		down.StabilizationWindowSeconds = new(saturate(int64(p.options.DownscaleStabilization / time.Second)))
	}
	return up, down
}

// stabilize returns the number nearest to the current one that recent recommendations allow: at least the
// lowest within the window of scaling up, at most the highest within that of scaling down.
func (p *pass) stabilize(current, wanted int32, up, down autoscalingv2.HPAScalingRules) int32 {
	upWindow, downWindow := seconds(*up.StabilizationWindowSeconds), seconds(*down.StabilizationWindowSeconds)
	lowest, highest := wanted, wanted
	for _, one := range p.history.recommended {
		if one.at.After(p.now.Add(-upWindow)) {
			lowest = min(lowest, one.replicas)
		}
		if one.at.After(p.now.Add(-downWindow)) {
			highest = max(highest, one.replicas)
		}
	}
	p.history.recommend(wanted, p.now, max(upWindow, downWindow))
	return min(max(current, lowest), highest)
}

// fastest returns how far rules let the number of replicas go now: up if direction is 1, down if it is -1.
func (p *pass) fastest(current int32, rules autoscalingv2.HPAScalingRules, direction int64) int32 {
	least := false // whether the policy counts that changes least
	if rules.SelectPolicy != nil {
		if *rules.SelectPolicy == autoscalingv2.DisabledPolicySelect {
			return current
		}
		least = *rules.SelectPolicy == autoscalingv2.MinChangePolicySelect
	}
	result, chosen := int64(current), false
	for i := range rules.Policies {
		policy := &rules.Policies[i]
		period := seconds(policy.PeriodSeconds)
		began := int64(current) - changedWithin(p.history.up, p.now, period) + changedWithin(p.history.down, p.now, period)
		proposed := int64(0)
		switch policy.Type {
		case autoscalingv2.PodsScalingPolicy:
			proposed = began + direction*int64(policy.Value)
		case autoscalingv2.PercentScalingPolicy:
			// Rounded up a small target can grow, and down it can shrink.
			share := float64(began) * (1 + float64(direction)*float64(policy.Value)/100)
			if direction > 0 {
				share = math.Ceil(share)
			}
			proposed = int64(share)
		}
		further := (proposed-result)*direction > 0
		if !chosen || further != least {
			result, chosen = proposed, true
		}
	}
	return saturate(result)
}

// saturate returns the nearest number of replicas.
func saturate(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
