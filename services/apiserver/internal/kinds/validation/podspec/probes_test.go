package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestProbes checks what a probe does, and its numbers.
func TestProbes(t *testing.T) {
	live := func(handler corev1.ProbeHandler, change func(*corev1.Probe)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			first(p).LivenessProbe = &corev1.Probe{ProbeHandler: handler}
			if change != nil {
				change(first(p).LivenessProbe)
			}
		}
	}
	exec := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	const at = "spec.containers[0].livenessProbe"
	checkExactly(t, []refusal{
		{"a command", live(exec, func(p *corev1.Probe) { p.TerminationGracePeriodSeconds = new(int64(1)) }), nil},
		{"no command", live(corev1.ProbeHandler{Exec: &corev1.ExecAction{}}, nil), []string{at + ".exec.command: Required value"}},
		{"a named port, headers", live(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Port: intstr.FromString("web"), Scheme: corev1.URISchemeHTTPS, HTTPHeaders: []corev1.HTTPHeader{{Name: "X-A-1"}},
		}}, nil), nil},
		{"a bad request", live(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Port: intstr.FromString("-"), Scheme: "https", HTTPHeaders: []corev1.HTTPHeader{{Name: "a b"}},
		}}, nil), []string{
			at + `.httpGet.port: Invalid value: "-": must contain at least one letter (a-z)`,
			at + `.httpGet.port: Invalid value: "-": must not begin or end with a hyphen`,
			at + `.httpGet.scheme: Unsupported value: "https": supported values: "HTTP", "HTTPS"`,
			at + `.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' ` +
				"(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
		}},
		{"a port of nothing", live(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}, nil), []string{at + ".tcpSocket.port: Invalid value: 0: " + noPort}},
		{"the greatest port", live(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 65535}}, nil), nil},
		{"a greater port", live(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 65536}}, nil), []string{at + ".grpc.port: Invalid value: 65536: " + noPort}},
		{"the second handler is not checked", live(corev1.ProbeHandler{Exec: exec.Exec, GRPC: &corev1.GRPCAction{}}, nil), []string{
			at + ".grpc: Forbidden: may not specify more than 1 handler type",
		}},
		{"negative numbers", live(exec, func(p *corev1.Probe) {
			p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold = -1, -1, -1, -1, -1
			p.TerminationGracePeriodSeconds = new(int64(0))
		}), []string{
			at + ".initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0", at + ".timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
			at + ".periodSeconds: Invalid value: -1: must be greater than or equal to 0", at + ".failureThreshold: Invalid value: -1: must be greater than or equal to 0",
			at + ".successThreshold: Invalid value: -1: must be greater than or equal to 0", at + ".successThreshold: Invalid value: -1: must be 1",
			at + ".terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
		}},
		{"two successes in a row, for readiness only", func(p *corev1.Pod) {
			first(p).ReadinessProbe = &corev1.Probe{ProbeHandler: exec, SuccessThreshold: 2, TerminationGracePeriodSeconds: new(int64(1))}
			first(p).StartupProbe = &corev1.Probe{ProbeHandler: exec, SuccessThreshold: 2}
		}, []string{
			"spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes",
			"spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1",
		}},
	})
}

// TestLifecycles checks what containers do after their start and before their end, and which have
// both: those that run beside others.
func TestLifecycles(t *testing.T) {
	sleep := func(seconds int64) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
	}
	const bounds = "must be non-negative and less than terminationGracePeriodSeconds (30)"
	init := func(policy *corev1.ContainerRestartPolicy, l *corev1.Lifecycle) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i", RestartPolicy: policy, Lifecycle: l, LivenessProbe: probe, StartupProbe: probe}}
		}
	}
	const at = "spec.initContainers[0]"
	checkExactly(t, []refusal{
		{"the longest and the shortest sleep", func(p *corev1.Pod) { first(p).Lifecycle = &corev1.Lifecycle{PreStop: sleep(30), PostStart: sleep(0)} }, nil},
		{"longer and shorter", func(p *corev1.Pod) { first(p).Lifecycle = &corev1.Lifecycle{PreStop: sleep(31), PostStart: sleep(-1)} }, []string{
			"spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: " + bounds, "spec.containers[0].lifecycle.postStart.sleep: Invalid value: -1: " + bounds,
		}},
		{"nothing to do", func(p *corev1.Pod) { first(p).Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}} }, []string{
			"spec.containers[0].lifecycle.postStart: Required value: must specify a handler type",
		}},
		{"beside the others", init(new(corev1.ContainerRestartPolicyAlways), &corev1.Lifecycle{PreStop: sleep(31)}), []string{
			at + ".lifecycle.preStop.sleep: Invalid value: 31: " + bounds,
		}},
		{"before the others", init(nil, &corev1.Lifecycle{PreStop: sleep(31)}), []string{
			at + ".lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
			at + ".livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
			at + ".startupProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
		}},
	})
}
