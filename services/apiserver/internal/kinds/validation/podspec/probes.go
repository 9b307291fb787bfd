package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

func probes(c *corev1.Container, path *field.Path) field.ErrorList {
	errs := probe(c.LivenessProbe, true, path.Child("livenessProbe"))
	errs = append(errs, probe(c.ReadinessProbe, false, path.Child("readinessProbe"))...)
	if c.ReadinessProbe != nil && c.ReadinessProbe.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(path.Child("readinessProbe", "terminationGracePeriodSeconds"),
			*c.ReadinessProbe.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	return append(errs, probe(c.StartupProbe, true, path.Child("startupProbe"))...)
}

// probe checks a probe; once says that its success threshold must be 1.
func probe(p *corev1.Probe, once bool, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	handler := corev1.LifecycleHandler{Exec: p.Exec, HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket}
	errs := handlers(handler, p.GRPC, nil, path)
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			errs = append(errs, field.Invalid(path.Child(n.name), n.value, "must be greater than or equal to 0"))
		}
	}
	if s := p.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *s, "must be greater than 0"))
	}
	if once && p.SuccessThreshold != 1 {
		errs = append(errs, field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
	return errs
}

func lifecycle(l *corev1.Lifecycle, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	var errs field.ErrorList
	grace := spec.TerminationGracePeriodSeconds
	if l.PostStart != nil {
		errs = append(errs, handlers(*l.PostStart, nil, grace, path.Child("postStart"))...)
	}
	if l.PreStop != nil {
		errs = append(errs, handlers(*l.PreStop, nil, grace, path.Child("preStop"))...)
	}
	if l.StopSignal != nil {
		errs = append(errs, stopSignal(*l.StopSignal, spec.OS, path.Child("stopSignal"))...)
	}
	return errs
}

// handlers checks that there is exactly one handler, and checks it. grace, if known, is the pod's
// grace period, which bounds a sleep.
func handlers(h corev1.LifecycleHandler, grpc *corev1.GRPCAction, grace *int64, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	count := 0
	another := func(name string) bool {
		count++
		if count > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
		}
		return count == 1
	}
	if h.Exec != nil && another("exec") && len(h.Exec.Command) == 0 {
		errs = append(errs, field.Required(path.Child("exec", "command"), ""))
	}
	if h.HTTPGet != nil && another("httpGet") {
		errs = append(errs, httpGet(h.HTTPGet, path.Child("httpGet"))...)
	}
	if h.TCPSocket != nil && another("tcpSocket") {
		errs = append(errs, portNumOrName(h.TCPSocket.Port, path.Child("tcpSocket", "port"))...)
	}
	if grpc != nil && another("grpc") {
		errs = append(errs, portNumOrName(intstr.FromInt32(grpc.Port), path.Child("grpc", "port"))...)
	}
	if h.Sleep != nil && another("sleep") && grace != nil && (h.Sleep.Seconds < 0 || h.Sleep.Seconds > *grace) {
		errs = append(errs, field.Invalid(path.Child("sleep"), h.Sleep.Seconds,
			fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace)))
	}
	if count == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return errs
}

func httpGet(action *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if action.Path == "" {
		errs = append(errs, field.Required(path.Child("path"), ""))
	}
	errs = append(errs, portNumOrName(action.Port, path.Child("port"))...)
	errs = append(errs, values.OneOf(action.Scheme, path.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, header := range action.HTTPHeaders {
		for _, msg := range validation.IsHTTPHeaderName(header.Name) {
			errs = append(errs, field.Invalid(path.Child("httpHeaders"), header.Name, msg))
		}
	}
	return errs
}

func portNumOrName(port intstr.IntOrString, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if port.Type == intstr.Int {
		for _, msg := range validation.IsValidPortNum(port.IntValue()) {
			errs = append(errs, field.Invalid(path, port.IntValue(), msg))
		}
		return errs
	}
	for _, msg := range validation.IsValidPortName(port.StrVal) {
		errs = append(errs, field.Invalid(path, port.StrVal, msg))
	}
	return errs
}
