package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/garboard/garboard/libs/client"
)

const (
	// definitionsPage is how many CustomResourceDefinitions are read at a time: each may have a megabyte.
	definitionsPage = 50
	// maxBackends bounds the Services of webhooks whose endpoints are read.
	maxBackends = 200

	admissionRunbook  = "See docs/operate/runbooks/GarboardAdmissionWebhookFails.md."
	conversionRunbook = "See docs/operate/runbooks/GarboardConversionWebhookFails.md."
)

// Extension are the facts about custom resources, webhooks and admission policies.
type Extension struct {
	// Definitions are the CustomResourceDefinitions, without their schemas.
	Definitions []*apiextensionsv1.CustomResourceDefinition
	// Hooks are the webhooks of admission and conversion.
	Hooks []Hook
	// Reached has for each Service of a webhook whether it has an endpoint that is ready, if it is known.
	Reached map[types.NamespacedName]bool
	// Policies are the warnings about the expressions of ValidatingAdmissionPolicies, by the policies' names.
	Policies map[string][]admissionregistrationv1.ExpressionWarning
	// Err is why something of this is not known.
	Err error
}

// Hook is what the doctor needs of a webhook.
type Hook struct {
	// Name is the webhook's, or the name of the definition whose objects it converts.
	Name string
	// Conversion says that it converts, Ignored that requests pass without it when it fails.
	Conversion, Ignored bool
	// Service is what it is reached by; empty for a URL.
	Service  types.NamespacedName
	CABundle []byte
}

func (e *Extension) gather(ctx context.Context, api client.Interface) {
	e.Reached, e.Policies = map[types.NamespacedName]bool{}, map[string][]admissionregistrationv1.ExpressionWarning{}
	for _, read := range []func(context.Context, client.Interface) error{e.definitions, e.admission, e.policies, e.backends} {
		if e.Err = read(ctx, api); e.Err != nil {
			return
		}
	}
}

func (e *Extension) definitions(ctx context.Context, api client.Interface) error {
	all, _, err := client.Of[*apiextensionsv1.CustomResourceDefinition](api).List(ctx, "", metav1.ListOptions{Limit: definitionsPage})
	for _, one := range all {
		c := one.Spec.Conversion
		if c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			hook := Hook{Name: one.Name, Conversion: true, CABundle: c.Webhook.ClientConfig.CABundle}
			if service := c.Webhook.ClientConfig.Service; service != nil {
				hook.Service = types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
			}
			e.Hooks = append(e.Hooks, hook)
		}
		one.Spec.Versions = nil
	}
	e.Definitions = all
	return err
}

func (e *Extension) admission(ctx context.Context, api client.Interface) error {
	mutating, _, err := client.Of[*admissionregistrationv1.MutatingWebhookConfiguration](api).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, configuration := range mutating {
		for i := range configuration.Webhooks {
			hook := &configuration.Webhooks[i]
			e.addHook(hook.Name, hook.FailurePolicy, &hook.ClientConfig)
		}
	}
	validating, _, err := client.Of[*admissionregistrationv1.ValidatingWebhookConfiguration](api).List(ctx, "", metav1.ListOptions{})
	for _, configuration := range validating {
		for i := range configuration.Webhooks {
			hook := &configuration.Webhooks[i]
			e.addHook(hook.Name, hook.FailurePolicy, &hook.ClientConfig)
		}
	}
	return err
}

func (e *Extension) addHook(
	name string, policy *admissionregistrationv1.FailurePolicyType, config *admissionregistrationv1.WebhookClientConfig,
) {
	hook := Hook{Name: name, CABundle: config.CABundle}
	hook.Ignored = policy != nil && *policy == admissionregistrationv1.Ignore
	if config.Service != nil {
		hook.Service = types.NamespacedName{Namespace: config.Service.Namespace, Name: config.Service.Name}
	}
	e.Hooks = append(e.Hooks, hook)
}

func (e *Extension) policies(ctx context.Context, api client.Interface) error {
	all, _, err := client.Of[*admissionregistrationv1.ValidatingAdmissionPolicy](api).List(ctx, "", metav1.ListOptions{})
	for _, one := range all {
		if checked := one.Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 {
			e.Policies[one.Name] = checked.ExpressionWarnings
		}
	}
	return err
}

// backends reads which of the webhooks' Services have an endpoint that is ready.
func (e *Extension) backends(ctx context.Context, api client.Interface) error {
	for _, hook := range e.Hooks {
		_, known := e.Reached[hook.Service]
		if known || hook.Service.Name == "" || len(e.Reached) == maxBackends {
			continue
		}
		found, _, err := client.Of[*discoveryv1.EndpointSlice](api).List(ctx, hook.Service.Namespace, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + hook.Service.Name,
		})
		if err != nil {
			return err
		}
		e.Reached[hook.Service] = slices.ContainsFunc(found, hasReady)
	}
	return nil
}

func hasReady(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) })
}

func checkExtension(l list, f *Facts) {
	e := &f.Extension
	if e.Err != nil {
		l.add(Warn, "all", e.Err.Error(), "Use a kubeconfig that may list customresourcedefinitions, webhook configurations, validatingadmissionpolicies and endpointslices.")
		return
	}
	checkDefinitions(l, f)
	checkHooks(l, f)
	for _, name := range slices.Sorted(maps.Keys(e.Policies)) {
		first := e.Policies[name][0]
		l.add(Warn, "policy "+name, fmt.Sprintf("%d of its expressions do not fit the types that it matches; %s: %s", len(e.Policies[name]), first.FieldRef, first.Warning),
			"Correct the expression, or what the policy matches: such an expression fails for each object of these types.")
	}
}

// checkDefinitions reports definitions that are not served, or cannot be deleted.
func checkDefinitions(l list, f *Facts) {
	served := 0
	for _, one := range f.Extension.Definitions {
		terminating := one.DeletionTimestamp != nil
		waits := f.serverNow().Sub(one.CreationTimestamp.Time) >= patience
		if terminating {
			waits = f.serverNow().Sub(one.DeletionTimestamp.Time) >= patience
		}
		names := apihelpers.FindCRDCondition(one, apiextensionsv1.NamesAccepted)
		established := apihelpers.FindCRDCondition(one, apiextensionsv1.Established)
		switch {
		case terminating && waits:
			said := "its deletion has not ended"
			if c := apihelpers.FindCRDCondition(one, apiextensionsv1.Terminating); c != nil {
				said += ": " + c.Message
			}
			l.add(Warn, one.Name, said, "Look for custom resources whose finalizers nobody removes: the program that added them may be gone.")
		case terminating:
		case names != nil && names.Status == apiextensionsv1.ConditionFalse:
			l.add(Warn, one.Name, fmt.Sprintf("its names are refused: %s: %s", names.Reason, names.Message),
				"Choose other names, or delete the definition that has them (kubectl get customresourcedefinitions).")
		case established != nil && established.Status == apiextensionsv1.ConditionTrue:
			served++
		case waits:
			l.add(Warn, one.Name, fmt.Sprintf("it has not been established for %s", long(patience)), "See the apiservers' logs.")
		}
	}
	if served == len(f.Extension.Definitions) {
		l.ok("definitions", "all %d are served", served)
	}
}

// checkHooks reports webhooks that cannot be called.
func checkHooks(l list, f *Facts) {
	faults, unread := map[cause][]string{}, 0
	for _, hook := range f.Extension.Hooks {
		advice, means := admissionRunbook, "what they check is refused"
		switch {
		case hook.Conversion:
			advice, means = conversionRunbook, "objects in other versions than the stored one can be neither read nor written"
		case hook.Ignored:
			means = "what they check passes unchecked"
		}
		reached, known := f.Extension.Reached[hook.Service]
		switch {
		case !known && hook.Service.Name != "":
			unread++
		case known && !reached:
			why := cause{"webhooks of " + hook.Service.String(), "the Service has no endpoint that is ready, so " + means, advice}
			faults[why] = append(faults[why], hook.Name)
		}
		if until := lastDay(hook.CABundle); !until.IsZero() && until.Before(f.serverNow()) {
			why := cause{"authority of webhooks", "every certificate in the caBundle has expired, so " + means, advice}
			faults[why] = append(faults[why], hook.Name)
		}
	}
	for _, why := range inOrder(faults) {
		l.add(Warn, why.name, fmt.Sprintf("%s (%s)", why.says, some(faults[why])), why.advice)
	}
	if unread > 0 {
		l.add(Warn, "webhooks", fmt.Sprintf("the endpoints of %d were not looked at: they have more than %d Services", unread, maxBackends),
			admissionRunbook)
	}
	if len(faults)+unread == 0 {
		l.ok("webhooks", "nothing keeps the apiservers from calling any of %d", len(f.Extension.Hooks))
	}
}

// lastDay returns when the last certificate of a bundle ends; zero if there is none.
func lastDay(bundle []byte) time.Time {
	var last time.Time
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && certificate.NotAfter.After(last) {
			last = certificate.NotAfter
		}
	}
	return last
}
