package policies

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are Kubernetes' metrics of policies. Administrators choose the names of policies, so the
// series of a policy end with it.
type metrics struct {
	validations       *prometheus.CounterVec
	validationSeconds *prometheus.HistogramVec
	mutations         *prometheus.CounterVec
	mutationSeconds   *prometheus.HistogramVec
	conditionErrors   *prometheus.CounterVec
	conditionSeconds  *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	buckets := []float64{0.0000005, 0.001, 0.01, 0.1, 1.0}
	condition := []string{"name", "kind", "type", "operation"}
	check := []string{"policy", "policy_binding", "error_type"}
	return &metrics{
		validations: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_validating_admission_policy_check_total",
			Help: "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
		}, append(check, "enforcement_action"))),
		validationSeconds: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_validating_admission_policy_check_duration_seconds",
			Help: "Validation admission latency for individual validation expressions in seconds, labeled by policy and further " +
				"including binding and enforcement action taken.",
			Buckets: buckets,
		}, append(check, "enforcement_action"))),
		mutations: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_mutating_admission_policy_check_total",
			Help: "Mutation admission policy check total, labeled by policy and further identified by binding.",
		}, check)),
		mutationSeconds: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_mutating_admission_policy_check_duration_seconds",
			Help:    "Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
			Buckets: buckets,
		}, check)),
		conditionErrors: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_match_condition_evaluation_errors_total",
			Help: "Errors in evaluating the match conditions of webhooks and policies, by name, kind, type (admit or validate) and operation.",
		}, condition)),
		conditionSeconds: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_match_condition_evaluation_seconds",
			Help:    "Time of evaluating the match conditions of webhooks and policies, by name, kind, type and operation.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25},
		}, condition)),
	}
}

func (m *metrics) validated(policy, binding, errorType, action string, took time.Duration) {
	m.validations.WithLabelValues(policy, binding, errorType, action).Inc()
	m.validationSeconds.WithLabelValues(policy, binding, errorType, action).Observe(took.Seconds())
}

func (m *metrics) mutated(policy, binding, errorType string, took time.Duration) {
	m.mutations.WithLabelValues(policy, binding, errorType).Inc()
	m.mutationSeconds.WithLabelValues(policy, binding, errorType).Observe(took.Seconds())
}

// forgetValidating and forgetMutating end the series of a policy.
func (m *metrics) forgetValidating(policy string) {
	of := prometheus.Labels{"policy": policy}
	m.validations.DeletePartialMatch(of)
	m.validationSeconds.DeletePartialMatch(of)
	m.forgetConditions(policy, "validate")
}

func (m *metrics) forgetMutating(policy string) {
	of := prometheus.Labels{"policy": policy}
	m.mutations.DeletePartialMatch(of)
	m.mutationSeconds.DeletePartialMatch(of)
	m.forgetConditions(policy, "admit")
}

func (m *metrics) forgetConditions(policy, step string) {
	of := prometheus.Labels{"name": policy, "kind": conditionKind, "type": step}
	m.conditionErrors.DeletePartialMatch(of)
	m.conditionSeconds.DeletePartialMatch(of)
}

// errorType returns Kubernetes' name of a failure, which the text of its error tells.
func errorType(text string) string {
	switch {
	case text == "":
		return "no_error"
	case strings.HasPrefix(text, "compilation"):
		return "compile_error"
	case strings.HasPrefix(text, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	default:
		return "invalid_error"
	}
}

// conditionKind is what has match conditions.
const conditionKind = "policy"

// measured counts and times the evaluations of a policy's match conditions.
type measured struct {
	plugincel.ConditionEvaluator
	metrics      *metrics
	policy, step string
}

// ForInput implements the library's ConditionEvaluator.
func (c measured) ForInput(
	ctx context.Context, a *k8sadmission.VersionedAttributes, request *admissionv1.AdmissionRequest,
	variables plugincel.OptionalVariableBindings, namespace *corev1.Namespace, budget int64,
) ([]plugincel.EvaluationResult, int64, error) {
	began := time.Now()
	results, left, err := c.ConditionEvaluator.ForInput(ctx, a, request, variables, namespace, budget)
	operation := string(a.GetOperation())
	c.metrics.conditionSeconds.WithLabelValues(c.policy, conditionKind, c.step, operation).Observe(time.Since(began).Seconds())
	for _, result := range results {
		if result.Error != nil {
			c.metrics.conditionErrors.WithLabelValues(c.policy, conditionKind, c.step, operation).Inc()
		}
	}
	return results, left, err
}
