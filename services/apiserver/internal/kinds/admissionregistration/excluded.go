package admissionregistration

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// excluded returns the resources about which no webhook is asked: without them, nobody could log in.
func excluded() []schema.GroupResource {
	var all []schema.GroupResource
	for group, resources := range map[string][]string{
		authenticationv1.GroupName: {"selfsubjectreviews", "tokenreviews"},
		authorizationv1.GroupName:  {"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"},
	} {
		for _, resource := range resources {
			all = append(all, schema.GroupResource{Group: group, Resource: resource})
		}
	}
	return all
}

// unheard warns of rules of webhooks that name excluded resources. Wildcards may mean others.
func unheard(c *admissionregistrationv1.ValidatingWebhookConfiguration) []string {
	var found []string
	for i := range c.Webhooks {
		for j := range c.Webhooks[i].Rules {
			r := &c.Webhooks[i].Rules[j]
			if slices.Contains(r.APIGroups, "*") || slices.Contains(r.Resources, "*") {
				continue
			}
			var named []schema.GroupResource
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					if is := (schema.GroupResource{Group: group, Resource: resource}); slices.Contains(excluded(), is) && !slices.Contains(named, is) {
						named = append(named, is)
					}
				}
			}
			at := field.NewPath("webhooks").Index(i).Child("rules").Index(j)
			for _, resource := range named {
				found = append(found, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", at, resource))
			}
		}
	}
	return found
}

// unheardMutating is unheard for the other kind.
func unheardMutating(c *admissionregistrationv1.MutatingWebhookConfiguration) []string {
	list, _ := common(c.Webhooks)
	return unheard(&admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: list})
}
