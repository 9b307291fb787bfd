package impersonation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// mode is one of Kubernetes' constrained impersonations (KEP-5284). The user needs the right to
// impersonate:MODE the other user, and the right to impersonate-on:MODE:VERB for what the request
// does.
type mode struct {
	name string
	// fits reports whether the mode applies to user acting as wanted.
	fits func(wanted, user authn.User) bool
}

func modes() []mode {
	return []mode{
		{"associated-node", func(wanted, user authn.User) bool {
			node, ok := nodeOf(wanted.Name)
			_, _, account := serviceAccount(user.Name)
			return ok && onlyNamed(wanted) && account && slices.Equal(user.Extra[authn.ExtraNodeName], []string{node})
		}},
		{"arbitrary-node", func(wanted, _ authn.User) bool {
			_, ok := nodeOf(wanted.Name)
			return ok && onlyNamed(wanted)
		}},
		{"serviceaccount", func(wanted, _ authn.User) bool {
			_, _, ok := serviceAccount(wanted.Name)
			return ok && onlyNamed(wanted)
		}},
		{"user-info", func(wanted, _ authn.User) bool {
			_, node := nodeOf(wanted.Name)
			_, _, account := serviceAccount(wanted.Name)
			return !node && !account
		}},
	}
}

// nodeOf returns the node whose agent has the given user name.
func nodeOf(user string) (string, bool) {
	name, ok := strings.CutPrefix(user, authn.NodePrefix)
	return name, ok && len(validation.NameIsDNSSubdomain(name, false)) == 0
}

func onlyNamed(user authn.User) bool {
	return user.UID == "" && len(user.Groups) == 0 && len(user.Extra) == 0
}

// constrained checks that the user may make the request in one of the modes.
func (c check) constrained(ctx context.Context, mode string, request authz.Attributes) (authn.User, error) {
	verb := "impersonate:" + mode
	on := request
	on.Verb = "impersonate-on:" + mode + ":" + request.Verb
	name := authz.Attributes{Verb: verb, Group: authenticationv1.GroupName, Version: "v1", Resource: "users", Name: c.wanted.Name}
	acting := c.wanted
	if node, ok := nodeOf(c.wanted.Name); ok {
		name.Resource, name.Name = "nodes", node
		if mode == "associated-node" {
			// There is one right for all nodes: the service account's token says which node it may
			// be.
			name.Name = "*"
		}
		acting.Groups = []string{authn.GroupNodes}
	}
	if namespace, account, ok := serviceAccount(c.wanted.Name); ok {
		name.Resource, name.Namespace, name.Name = "serviceaccounts", namespace, account
		acting.Groups = authn.ServiceAccountGroups(namespace)
	}
	for _, a := range []authz.Attributes{on, name} {
		if err := c.may(ctx, a); err != nil {
			return authn.User{}, err
		}
	}
	if err := checkConstrained(c.wanted); err != nil {
		return authn.User{}, err
	}
	if err := c.rest(ctx, verb, authenticationv1.GroupName); err != nil {
		return authn.User{}, err
	}
	return grouped(acting), nil
}

// checkConstrained refuses what these modes, unlike plain impersonation, never allow.
func checkConstrained(wanted authn.User) error {
	switch {
	case slices.Contains(wanted.Groups, ""):
		return errors.New("impersonating the empty string group is not allowed")
	case slices.Contains(wanted.Groups, authn.GroupMasters):
		return errors.New("impersonating the system:masters group is not allowed")
	}
	for key, values := range wanted.Extra {
		if errs := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key); len(errs) > 0 {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", errs.ToAggregate())
		}
		switch {
		case key != strings.ToLower(key):
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		case len(values) == 0:
			return errors.New("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}
