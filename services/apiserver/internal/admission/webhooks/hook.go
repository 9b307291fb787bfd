package webhooks

import (
	"fmt"
	"sync"
	"time"

	celgo "github.com/google/cel-go/cel"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// hook is a webhook of a configuration, ready for use. It is immutable.
type hook struct {
	// configuration and name are those of the configuration and of the webhook in it; id is unique
	// among all webhooks of a plugin.
	configuration, name, id string
	target                  webhook.Target
	rules                   []registrationv1.RuleWithOperations
	// ignored makes a failure of the webhook admit the request.
	ignored bool
	// equivalent makes the rules match the object's other versions.
	equivalent bool
	// namespaces and objects select by labels; selectorErr says why one of them cannot.
	namespaces, objects       labels.Selector
	namespacesErr, objectsErr error
	conditions                []registrationv1.MatchCondition
	sideEffects               *registrationv1.SideEffectClass
	// timeout is the longest time of a call; none if it is 0.
	timeout  time.Duration
	versions []string
	// again lets the webhook be called once more if others change the object after it.
	again bool

	compile  sync.Once
	compiled cel.ConditionEvaluator
}

// common are the fields that both kinds of webhooks have.
func common(configuration string, w *registrationv1.ValidatingWebhook) *hook {
	h := &hook{
		configuration: configuration, name: w.Name, target: targetOf(w.ClientConfig), rules: w.Rules,
		ignored:    w.FailurePolicy != nil && *w.FailurePolicy == registrationv1.Ignore,
		equivalent: w.MatchPolicy != nil && *w.MatchPolicy == registrationv1.Equivalent,
		conditions: w.MatchConditions, sideEffects: w.SideEffects, versions: w.AdmissionReviewVersions,
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	h.namespaces, h.namespacesErr = metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	h.objects, h.objectsErr = metav1.LabelSelectorAsSelector(w.ObjectSelector)
	return h
}

// mutatingHooks returns the webhooks of a configuration in their order.
func mutatingHooks(c *registrationv1.MutatingWebhookConfiguration) []*hook {
	hooks := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		hooks[i] = common(c.Name, &registrationv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
		hooks[i].again = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy
	}
	return identify(hooks)
}

// validatingHooks is mutatingHooks for the other kind.
func validatingHooks(c *registrationv1.ValidatingWebhookConfiguration) []*hook {
	hooks := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		hooks[i] = common(c.Name, &c.Webhooks[i])
	}
	return identify(hooks)
}

// identify gives the webhooks of one configuration their identities. Names may repeat in old objects.
func identify(hooks []*hook) []*hook {
	times := map[string]int{}
	for _, h := range hooks {
		h.id = fmt.Sprintf("%s/%s/%d", h.configuration, h.name, times[h.name])
		times[h.name]++
	}
	return hooks
}

func targetOf(c registrationv1.WebhookClientConfig) webhook.Target {
	target := webhook.Target{CABundle: c.CABundle}
	if c.URL != nil {
		target.URL = *c.URL
	}
	if s := c.Service; s != nil {
		target.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Path != nil {
			target.Service.Path = *s.Path
		}
		if s.Port != nil {
			target.Service.Port = *s.Port
		}
	}
	return target
}

// condition is an expression that must hold for the webhook to be called.
type condition struct{ registrationv1.MatchCondition }

// GetExpression implements cel.ExpressionAccessor.
func (c condition) GetExpression() string { return c.Expression }

// ReturnTypes implements cel.ExpressionAccessor.
func (c condition) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.BoolType} }

// evaluator returns the compiled conditions.
func (h *hook) evaluator(compiler func() cel.ConditionCompiler) cel.ConditionEvaluator {
	h.compile.Do(func() {
		expressions := make([]cel.ExpressionAccessor, len(h.conditions))
		for i, c := range h.conditions {
			expressions[i] = condition{c}
		}
		h.compiled = compiler().CompileCondition(expressions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	})
	return h.compiled
}

// withoutEffects reports whether the webhook may be called in a dry run.
func (h *hook) withoutEffects() bool {
	return *h.sideEffects == registrationv1.SideEffectClassNone || *h.sideEffects == registrationv1.SideEffectClassNoneOnDryRun
}
