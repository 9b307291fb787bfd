package customresources

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

type (
	crd       = apiextensionsv1.CustomResourceDefinition
	condition = apiextensionsv1.CustomResourceDefinitionCondition
)

// taken are the names that the definitions of a group have accepted.
type taken struct {
	resources, kinds map[string]bool
}

// takenIn returns the names that definitions of a group, the one under judgement among them, have accepted.
func takenIn(group string, all []*crd) taken {
	t := taken{map[string]bool{}, map[string]bool{}}
	for _, one := range all {
		if one.Spec.Group != group {
			continue
		}
		names := &one.Status.AcceptedNames
		for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			t.resources[name] = true
		}
		t.kinds[names.Kind], t.kinds[names.ListKind] = true, true
	}
	return t
}

// free returns an error if a wanted name is another definition's. had is the definition's own.
func free(wanted, had string, used map[string]bool) error {
	if wanted == had || !used[wanted] {
		return nil
	}
	return fmt.Errorf("%q is already in use", wanted)
}

// hasItsNames reports whether a definition has all names that it wants.
func hasItsNames(c *crd) bool {
	return apiequality.Semantic.DeepEqual(c.Spec.Names, c.Status.AcceptedNames)
}

// acceptNames records in a definition's status which of its names no other definition of its group has, and
// whether that is all of them. A name that is taken leaves the former one in force. It reports whether the
// status changed.
func acceptNames(c *crd, all []*crd) bool {
	if hasItsNames(c) {
		return false
	}
	wanted, had := c.Spec.Names, c.Status.AcceptedNames
	used, accepted := takenIn(c.Spec.Group, all), *had.DeepCopy()
	verdict := condition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"}
	one := func(into *string, wanted string, used map[string]bool, reason string) {
		if err := free(wanted, *into, used); err != nil {
			verdict.Status, verdict.Reason, verdict.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
			return
		}
		*into = wanted
	}
	one(&accepted.Plural, wanted.Plural, used.resources, "PluralConflict")
	one(&accepted.Singular, wanted.Singular, used.resources, "SingularConflict")
	var errs []error
	for _, name := range wanted.ShortNames {
		if !slices.Contains(had.ShortNames, name) {
			errs = append(errs, free(name, "", used.resources))
		}
	}
	if errors.Join(errs...) != nil {
		verdict.Status, verdict.Reason, verdict.Message = apiextensionsv1.ConditionFalse, "ShortNamesConflict", utilerrors.NewAggregate(errs).Error()
	} else {
		accepted.ShortNames = wanted.ShortNames
	}
	one(&accepted.Kind, wanted.Kind, used.kinds, "KindConflict")
	one(&accepted.ListKind, wanted.ListKind, used.kinds, "ListKindConflict")
	accepted.Categories = wanted.Categories
	if apiequality.Semantic.DeepEqual(had, accepted) &&
		apihelpers.IsCRDConditionEquivalent(&verdict, apihelpers.FindCRDCondition(c, apiextensionsv1.NamesAccepted)) {
		return false
	}
	c.Status.AcceptedNames = accepted
	setCondition(c, verdict)
	setCondition(c, establishing(c, verdict.Status == apiextensionsv1.ConditionTrue))
	return true
}

// establishing returns the condition Established after names were judged. Once true, it stays.
func establishing(c *crd, accepted bool) condition {
	was := apihelpers.FindCRDCondition(c, apiextensionsv1.Established)
	switch {
	case was != nil && was.Status == apiextensionsv1.ConditionTrue:
		return *was
	case accepted:
		return condition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "Installing",
			Message: "the initial names have been accepted",
		}
	case was != nil:
		return *was
	}
	return condition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "NotAccepted",
		Message: "not all names are accepted",
	}
}

// apiVersionKind returns the kind that a version of a definition serves.
func apiVersionKind(c *crd, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: c.Spec.Group, Version: version, Kind: c.Status.AcceptedNames.Kind}
}

// setCondition sets a condition. As in Kubernetes it has no observedGeneration: kubectl wait would take the
// condition for that of a former generation once the definition changes.
func setCondition(c *crd, next condition) { apihelpers.SetCRDCondition(c, next) }
