package policies

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	k8sauthorizer "k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// authorizer shows our authorizer to expressions as Kubernetes' library expects one.
type authorizer struct{ authz.Authorizer }

// Authorize implements the library's UnconditionalAuthorizer.
func (o authorizer) Authorize(ctx context.Context, a k8sauthorizer.Attributes) (k8sauthorizer.Decision, string, error) {
	if o.Authorizer == nil {
		return k8sauthorizer.DecisionNoOpinion, "no authorizer is configured", nil
	}
	about := authz.Attributes{
		Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Namespace: a.GetNamespace(), Name: a.GetName(),
	}
	if !a.IsResourceRequest() {
		about = authz.Attributes{Verb: a.GetVerb(), Path: a.GetPath(), NonResource: true}
	}
	about.Fields, about.FieldsErr = a.GetFieldSelector()
	about.Labels, about.LabelsErr = a.GetLabelSelector()
	decision, reason, err := o.Authorizer.Authorize(ctx, ourUser(a.GetUser()), about)
	if err != nil {
		err = fmt.Errorf("authorizing for a policy: %w", err)
	}
	switch decision {
	case authz.Allow:
		return k8sauthorizer.DecisionAllow, reason, err
	case authz.Deny:
		return k8sauthorizer.DecisionDeny, reason, err
	default:
		return k8sauthorizer.DecisionNoOpinion, reason, err
	}
}

func ourUser(u user.Info) authn.User {
	if u == nil {
		return authn.User{}
	}
	return authn.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}
