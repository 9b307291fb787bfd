// Package audit keeps the audit log. For each request that a policy selects, it writes events in
// Kubernetes' format, one JSON object per line.
package audit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Policy decides what is recorded about a request. The first matching rule applies.
type Policy struct{ policy auditv1.Policy }

// LoadPolicy reads a policy file, YAML or JSON of kind Policy in audit.k8s.io/v1.
func LoadPolicy(path string) (*Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the audit policy: %w", err)
	}
	policy, err := ParsePolicy(data)
	if err != nil {
		return nil, fmt.Errorf("reading the audit policy %s: %w", path, err)
	}
	return policy, nil
}

// ParsePolicy parses a policy. Its error names the rule and the field at fault. Unlike Kubernetes,
// it refuses unknown fields: a rule that loses a misspelled field matches more than its author
// meant.
func ParsePolicy(data []byte) (*Policy, error) {
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("failed decoding: %w", err)
	}
	p := new(Policy)
	strict, err := kjson.UnmarshalStrict(converted, &p.policy)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("failed decoding: %w", err)
	}
	gvk := p.policy.GroupVersionKind()
	if gvk.GroupVersion() != auditv1.SchemeGroupVersion || gvk.Kind != "Policy" {
		return nil, fmt.Errorf("unknown group version field %v in policy; apiVersion %s and kind Policy are known", gvk, auditv1.SchemeGroupVersion)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	for i := range p.policy.Rules {
		rule := &p.policy.Rules[i]
		rule.OmitStages = slices.Concat(p.policy.OmitStages, rule.OmitStages)
	}
	return p, nil
}

func levels() []auditv1.Level {
	return []auditv1.Level{auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}
}

func (p *Policy) check() error {
	var errs []error
	if len(p.policy.Rules) == 0 {
		errs = append(errs, errors.New("loaded illegal policy with 0 rules"))
	}
	errs = append(errs, checkStages("omitStages", p.policy.OmitStages))
	for i, rule := range p.policy.Rules {
		errs = append(errs, checkRule(fmt.Sprintf("rules[%d]", i), rule))
	}
	return errors.Join(errs...)
}

func checkRule(path string, rule auditv1.PolicyRule) error {
	var errs []error
	switch {
	case rule.Level == "":
		errs = append(errs, fmt.Errorf("%s.level: Required value", path))
	case !slices.Contains(levels(), rule.Level):
		errs = append(errs, fmt.Errorf("%s.level: Unsupported value: %q: supported values: %q", path, rule.Level, levels()))
	}
	for i, url := range rule.NonResourceURLs {
		at := fmt.Sprintf("%s.nonResourceURLs[%d]: Invalid value: %q: ", path, i, url)
		if url == "*" {
			continue
		}
		if !strings.HasPrefix(url, "/") {
			errs = append(errs, errors.New(at+"non-resource URL rules must begin with a '/' character"))
		}
		if strings.Contains(strings.TrimSuffix(url, "*"), "*") {
			errs = append(errs, errors.New(at+"non-resource URL wildcards '*' must be the final character of the rule"))
		}
	}
	for i, resources := range rule.Resources {
		at := fmt.Sprintf("%s.resources[%d]", path, i)
		if group := resources.Group; group != "" && group != "*" {
			if problems := validation.NameIsDNSSubdomain(group, false); len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s.group: Invalid value: %q: %s", at, group, strings.Join(problems, ",")))
			}
		}
		if len(resources.ResourceNames) > 0 && len(resources.Resources) == 0 {
			errs = append(errs, fmt.Errorf("%s.resourceNames: Invalid value: %q: using resourceNames requires at least one resource", at, resources.ResourceNames))
		}
	}
	if len(rule.NonResourceURLs) > 0 && (len(rule.Resources) > 0 || len(rule.Namespaces) > 0) {
		errs = append(errs, fmt.Errorf("%s.nonResourceURLs: Invalid value: %q: rules cannot apply to both regular resources and non-resource URLs", path, rule.NonResourceURLs))
	}
	return errors.Join(append(errs, checkStages(path+".omitStages", rule.OmitStages))...)
}

func checkStages(path string, stages []auditv1.Stage) error {
	known := []auditv1.Stage{auditv1.StageRequestReceived, auditv1.StageResponseStarted, auditv1.StageResponseComplete, auditv1.StagePanic}
	var errs []error
	for i, stage := range stages {
		if !slices.Contains(known, stage) {
			errs = append(errs, fmt.Errorf("%s[%d]: Invalid value: %q: allowed stages are %q", path, i, stage, known))
		}
	}
	return errors.Join(errs...)
}

// verdict is what a policy decides about a request.
type verdict struct {
	number            int // of the rule
	level             auditv1.Level
	omitStages        []auditv1.Stage
	omitManagedFields bool
}

// rule returns what applies to a request. user is nil when the request was not authenticated.
func (p *Policy) rule(user *authn.User, a authz.Attributes) verdict {
	for i := range p.policy.Rules {
		rule := &p.policy.Rules[i]
		if !matches(rule, user, a) {
			continue
		}
		v := verdict{number: i, level: rule.Level, omitStages: rule.OmitStages, omitManagedFields: p.policy.OmitManagedFields}
		if rule.OmitManagedFields != nil {
			v.omitManagedFields = *rule.OmitManagedFields
		}
		return v
	}
	return verdict{level: auditv1.LevelNone}
}

func matches(rule *auditv1.PolicyRule, user *authn.User, a authz.Attributes) bool {
	if len(rule.Users) > 0 && (user == nil || !slices.Contains(rule.Users, user.Name)) {
		return false
	}
	if len(rule.UserGroups) > 0 && (user == nil || !slices.ContainsFunc(user.Groups, func(group string) bool {
		return slices.Contains(rule.UserGroups, group)
	})) {
		return false
	}
	if len(rule.Verbs) > 0 && !slices.Contains(rule.Verbs, a.Verb) {
		return false
	}
	switch {
	case len(rule.Namespaces) > 0 || len(rule.Resources) > 0:
		return a.IsResource() && matchesResource(rule, a)
	case len(rule.NonResourceURLs) > 0:
		return !a.IsResource() && slices.ContainsFunc(rule.NonResourceURLs, func(spec string) bool {
			prefix, wild := strings.CutSuffix(spec, "*")
			return spec == a.Path || wild && strings.HasPrefix(a.Path, prefix)
		})
	}
	return true
}

func matchesResource(rule *auditv1.PolicyRule, a authz.Attributes) bool {
	if len(rule.Namespaces) > 0 && !slices.Contains(rule.Namespaces, a.Namespace) {
		return false
	}
	if len(rule.Resources) == 0 {
		return true
	}
	whole := a.Resource
	if a.Subresource != "" {
		whole += "/" + a.Subresource
	}
	for _, resources := range rule.Resources {
		if resources.Group != a.Group && resources.Group != "*" {
			continue
		}
		if len(resources.Resources) == 0 {
			return true
		}
		if len(resources.ResourceNames) > 0 && !slices.Contains(resources.ResourceNames, a.Name) {
			continue
		}
		for _, resource := range resources.Resources {
			if resource == whole || resource == "*" || resource == a.Resource+"/*" || a.Subresource != "" && resource == "*/"+a.Subresource {
				return true
			}
		}
	}
	return false
}
