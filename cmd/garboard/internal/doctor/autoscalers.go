package doctor

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// notServed is what a client says of an API that a server does not have.
const notServed = "the server could not find the requested resource"

// checkAutoscalers reports autoscalers that cannot read their metrics. Faults of their spec concern only
// their owners.
func checkAutoscalers(l list, f *Facts) {
	if f.AutoscalersErr != nil {
		l.add(Warn, "all", f.AutoscalersErr.Error(), "Use a kubeconfig that may list horizontalpodautoscalers.")
		return
	}
	var unserved, unread []string
	said := ""
	for _, a := range f.Autoscalers {
		for i := range a.Status.Conditions {
			c := &a.Status.Conditions[i]
			if c.Type != autoscalingv2.ScalingActive || c.Status != corev1.ConditionFalse || !strings.HasPrefix(c.Reason, "FailedGet") ||
				f.serverNow().Sub(c.LastTransitionTime.Time) < patience {
				continue
			}
			name := a.Namespace + "/" + a.Name
			if strings.Contains(c.Message, notServed) {
				unserved = append(unserved, name)
				continue
			}
			if unread = append(unread, name); len(unread) == 1 {
				said = c.Reason + ": " + c.Message
			}
		}
	}
	if len(unserved) > 0 {
		l.add(Warn, "metrics API", "nobody serves the metrics that autoscalers need: "+some(unserved),
			"Install a metrics server and name it to the controllers with --horizontal-pod-autoscaler-metrics-server: docs/reference/autoscaling.md.")
	}
	if len(unread) > 0 {
		l.add(Warn, "metrics", fmt.Sprintf("autoscalers cannot read theirs (%s); the first says %s", some(unread), said),
			"See the metrics server and its log; pods need resource requests for targets that are a share of these.")
	}
	if len(unserved)+len(unread) == 0 {
		l.ok("metrics", "no autoscaler lacks them, of %d", len(f.Autoscalers))
	}
}
