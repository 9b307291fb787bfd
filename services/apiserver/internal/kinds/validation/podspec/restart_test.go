package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRestartPolicies checks the policy of a single container, which its rules need.
func TestRestartPolicies(t *testing.T) {
	init := func(policy *corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i", RestartPolicy: policy, RestartPolicyRules: rules}}
		}
	}
	rule := corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{1},
	}}
	const unknown = `.restartPolicy: Unsupported value: "never": supported values: "Always", "Never", "OnFailure"`
	checkExactly(t, []refusal{
		{"rules", init(new(corev1.ContainerRestartPolicyNever), rule), nil},
		{"rules without a policy", init(nil, rule), []string{"spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used"}},
		{"an unknown policy", func(p *corev1.Pod) {
			init(new(corev1.ContainerRestartPolicy("never")))(p)
			first(p).RestartPolicy = new(corev1.ContainerRestartPolicy("never"))
		}, []string{"spec.containers[0]" + unknown, "spec.initContainers[0]" + unknown}},
		{"a restart of all containers", func(p *corev1.Pod) {
			all := *rule.DeepCopy()
			all.Action = corev1.ContainerRestartRuleActionRestartAllContainers
			first(p).RestartPolicy, first(p).RestartPolicyRules = new(corev1.ContainerRestartPolicyOnFailure), []corev1.ContainerRestartRule{all}
		}, nil},
	})
}
