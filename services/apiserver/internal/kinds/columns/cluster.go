package columns

import (
	"cmp"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
)

func runtimeClasses() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]), age(),
	}, func(c *nodev1.RuntimeClass, now time.Time) []any { return []any{c.Name, c.Handler, ageOf(c, now)} })
}

func mutatingWebhooks() layout {
	return of(webhookColumns(), func(c *admissionregistrationv1.MutatingWebhookConfiguration, now time.Time) []any {
		return []any{c.Name, int64(len(c.Webhooks)), ageOf(c, now)}
	})
}

func validatingWebhooks() layout {
	return of(webhookColumns(), func(c *admissionregistrationv1.ValidatingWebhookConfiguration, now time.Time) []any {
		return []any{c.Name, int64(len(c.Webhooks)), ageOf(c, now)}
	})
}

func webhookColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name(), number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), age(),
	}
}

func validatingPolicies() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		number("Validations", "Validations indicates the number of validation rules defined in this configuration"),
		text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
		age(),
	}, func(p *admissionregistrationv1.ValidatingAdmissionPolicy, now time.Time) []any {
		return []any{p.Name, int64(len(p.Spec.Validations)), parameterKind(p.Spec.ParamKind), ageOf(p, now)}
	})
}

func mutatingPolicies() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		number("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
		text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
		age(),
	}, func(p *admissionregistrationv1.MutatingAdmissionPolicy, now time.Time) []any {
		return []any{p.Name, int64(len(p.Spec.Mutations)), parameterKind(p.Spec.ParamKind), ageOf(p, now)}
	})
}

func parameterKind(kind *admissionregistrationv1.ParamKind) string {
	if kind == nil {
		return unset
	}
	return kind.APIVersion + "/" + kind.Kind
}

func validatingPolicyBindings() layout {
	return of(policyBindingColumns(), func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
		return []any{b.Name, b.Spec.PolicyName, parameters(b.Spec.ParamRef), ageOf(b, now)}
	})
}

func mutatingPolicyBindings() layout {
	return of(policyBindingColumns(), func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
		return []any{b.Name, b.Spec.PolicyName, parameters(b.Spec.ParamRef), ageOf(b, now)}
	})
}

func policyBindingColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name(),
		text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		text("ParamRef", "ParamRef indicates the param resource which sets the configration param"), //nolint:misspell // Spelled like this in Kubernetes.
		age(),
	}
}

// parameters names the parameters of a policy: an object, in any namespace if none is given, or all
// objects that a selector matches.
func parameters(ref *admissionregistrationv1.ParamRef) string {
	switch {
	case ref == nil:
	case ref.Name != "":
		return cmp.Or(ref.Namespace, "*") + "/" + ref.Name
	case ref.Selector != nil:
		return ref.Selector.String()
	}
	return unset
}

func flowSchemas() layout {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	l := of([]metav1.TableColumnDefinition{
		name(),
		text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
		text("MatchingPrecedence", spec["matchingPrecedence"]),
		text("DistinguisherMethod", spec["distinguisherMethod"]),
		age(),
		text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
	}, func(s *flowcontrolv1.FlowSchema, now time.Time) []any {
		method, missing := none, "?"
		if s.Spec.DistinguisherMethod != nil {
			method = string(s.Spec.DistinguisherMethod.Type)
		}
		for _, condition := range s.Status.Conditions {
			if condition.Type == flowcontrolv1.FlowSchemaConditionDangling {
				missing = string(condition.Status)
				break
			}
		}
		return []any{s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method, ageOf(s, now), missing}
	})
	l.order = func(a, b scheme.Object) int {
		x, okX := a.(*flowcontrolv1.FlowSchema)
		y, okY := b.(*flowcontrolv1.FlowSchema)
		if !okX || !okY {
			return 0
		}
		return cmp.Or(cmp.Compare(x.Spec.MatchingPrecedence, y.Spec.MatchingPrecedence), cmp.Compare(x.Name, y.Name))
	}
	return l
}

func priorityLevels() layout {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
		text("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
		text("Queues", queuing["queues"]),
		text("HandSize", queuing["handSize"]),
		text("QueueLengthLimit", queuing["queueLengthLimit"]),
		age(),
	}, func(p *flowcontrolv1.PriorityLevelConfiguration, now time.Time) []any {
		cells := []any{p.Name, string(p.Spec.Type), none, none, none, none, ageOf(p, now)}
		limited := p.Spec.Limited
		if limited == nil {
			return cells
		}
		if limited.NominalConcurrencyShares != nil {
			cells[2] = int64(*limited.NominalConcurrencyShares)
		}
		if q := limited.LimitResponse.Queuing; q != nil {
			cells[3], cells[4], cells[5] = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
		}
		return cells
	})
}

func clusterTrustBundles() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
	}, func(b *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
		return []any{b.Name, orNone(b.Spec.SignerName)}
	})
}

func podCertificateRequests() layout {
	doc := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("PodName", doc["podName"]),
		text("ServiceAccountName", doc["serviceAccountName"]),
		text("NodeName", doc["nodeName"]),
		text("SignerName", doc["signerName"]),
		text("State", "Is the request Pending, Issued, Denied, or Failed?"),
		text("UnverifiedUserAnnotations", doc["unverifiedUserAnnotations"]),
	}, func(r *certificatesv1.PodCertificateRequest, _ time.Time) []any {
		state := "Pending"
		for _, condition := range r.Status.Conditions {
			switch condition.Type {
			case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
				certificatesv1.PodCertificateRequestConditionTypeFailed:
				state = condition.Type
			}
		}
		return []any{r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state, labels.FormatLabels(r.Spec.UnverifiedUserAnnotations)}
	})
}

func apiServices() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Service", "The reference to the service that hosts this API endpoint."),
		text("Available", "Whether this service is available."),
		age(),
	}, func(s *apiregistrationv1.APIService, now time.Time) []any {
		service, available := "Local", string(apiregistrationv1.ConditionUnknown)
		if ref := s.Spec.Service; ref != nil {
			service = ref.Namespace + "/" + ref.Name
		}
		for _, condition := range s.Status.Conditions {
			if condition.Type != apiregistrationv1.Available {
				continue
			}
			available = string(condition.Status)
			if condition.Status != apiregistrationv1.ConditionTrue && condition.Reason != "" {
				available = fmt.Sprintf("%s (%s)", condition.Status, condition.Reason)
			}
			break
		}
		return []any{s.Name, service, available, ageOf(s, now)}
	})
}
