package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// Kubernetes' limits for the rules that restart a container.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// initRestarts checks when an init container is restarted.
func initRestarts(c *corev1.Container, path *field.Path) field.ErrorList {
	if c.RestartPolicy != nil {
		return restarts(c, path)
	}
	if len(c.RestartPolicyRules) > 0 {
		return field.ErrorList{field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")}
	}
	return nil
}

// restarts checks when a container is restarted.
func restarts(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.RestartPolicy != nil {
		errs = append(errs, values.Known(*c.RestartPolicy, path.Child("restartPolicy"),
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	at := path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > maxRestartRules {
		errs = append(errs, field.TooMany(at, len(c.RestartPolicyRules), maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		at := at.Index(i)
		errs = append(errs, values.Known(rule.Action, at.Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, values.Known(rule.ExitCodes.Operator, at.Child("exitCodes", "operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(at.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
	return errs
}

// resizePolicy checks whether the container must restart for a change of a resource. policy is the
// pod's restart policy.
func resizePolicy(list []corev1.ContainerResizePolicy, policy corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceName]()
	for i, p := range list {
		if seen.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		errs = append(errs, values.OneOf(p.ResourceName, path, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, values.OneOf(p.RestartPolicy, path, corev1.NotRequired, corev1.RestartContainer)...)
		if policy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// stopSignal checks the signal that stops a container on an operating system.
func stopSignal(signal corev1.Signal, system *corev1.PodOS, path *field.Path) field.ErrorList {
	if system == nil {
		return field.ErrorList{field.Forbidden(path, "may not be set for containers with empty `spec.os.name`")}
	}
	var allowed []corev1.Signal
	switch system.Name {
	case corev1.Linux:
		allowed = linuxSignals()
	case corev1.Windows:
		allowed = []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM}
	default:
		return nil
	}
	if slices.Contains(allowed, signal) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, signal, slices.Sorted(slices.Values(allowed)))}
}

func linuxSignals() []corev1.Signal {
	return []corev1.Signal{
		corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT, corev1.SIGFPE, corev1.SIGHUP,
		corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL, corev1.SIGPIPE, corev1.SIGPOLL, corev1.SIGPROF,
		corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGSEGV, corev1.SIGSTKFLT, corev1.SIGSTOP, corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP,
		corev1.SIGTSTP, corev1.SIGTTIN, corev1.SIGTTOU, corev1.SIGURG, corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH,
		corev1.SIGXCPU, corev1.SIGXFSZ, corev1.SIGRTMIN, corev1.SIGRTMINPLUS1, corev1.SIGRTMINPLUS2, corev1.SIGRTMINPLUS3,
		corev1.SIGRTMINPLUS4, corev1.SIGRTMINPLUS5, corev1.SIGRTMINPLUS6, corev1.SIGRTMINPLUS7, corev1.SIGRTMINPLUS8,
		corev1.SIGRTMINPLUS9, corev1.SIGRTMINPLUS10, corev1.SIGRTMINPLUS11, corev1.SIGRTMINPLUS12, corev1.SIGRTMINPLUS13,
		corev1.SIGRTMINPLUS14, corev1.SIGRTMINPLUS15, corev1.SIGRTMAXMINUS14, corev1.SIGRTMAXMINUS13, corev1.SIGRTMAXMINUS12,
		corev1.SIGRTMAXMINUS11, corev1.SIGRTMAXMINUS10, corev1.SIGRTMAXMINUS9, corev1.SIGRTMAXMINUS8, corev1.SIGRTMAXMINUS7,
		corev1.SIGRTMAXMINUS6, corev1.SIGRTMAXMINUS5, corev1.SIGRTMAXMINUS4, corev1.SIGRTMAXMINUS3, corev1.SIGRTMAXMINUS2,
		corev1.SIGRTMAXMINUS1, corev1.SIGRTMAX,
	}
}
