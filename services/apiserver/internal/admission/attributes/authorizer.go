package attributes

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Authorizer is an authorizer for expressions. Without one of ours it has no opinion.
type Authorizer struct {
	// By decides; nil if nothing does.
	By authz.Authorizer
}

// Authorize implements Kubernetes' authorizer.UnconditionalAuthorizer.
func (a Authorizer) Authorize(ctx context.Context, about authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.By == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	var who authn.User
	if u := about.GetUser(); u != nil {
		who = authn.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	}
	decision, reason, err := a.By.Authorize(ctx, who, translate(about))
	switch decision {
	case authz.Allow:
		return authorizer.DecisionAllow, reason, err
	case authz.Deny:
		return authorizer.DecisionDeny, reason, err
	case authz.NoOpinion:
	}
	return authorizer.DecisionNoOpinion, reason, err
}

func translate(about authorizer.Attributes) authz.Attributes {
	if !about.IsResourceRequest() {
		return authz.Attributes{Verb: about.GetVerb(), Path: about.GetPath(), NonResource: true}
	}
	a := authz.Attributes{
		Verb: about.GetVerb(), Group: about.GetAPIGroup(), Version: about.GetAPIVersion(), Resource: about.GetResource(),
		Subresource: about.GetSubresource(), Namespace: about.GetNamespace(), Name: about.GetName(),
	}
	a.Fields, a.FieldsErr = about.GetFieldSelector()
	a.Labels, a.LabelsErr = about.GetLabelSelector()
	return a
}
