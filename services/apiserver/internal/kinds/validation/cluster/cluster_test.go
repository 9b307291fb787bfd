package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badLabel     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	badVersion   = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, ResourceVersion: "1"} }

func TestRuntimeClass(t *testing.T) {
	newClass := func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{ObjectMeta: meta("x"), Handler: "runc"} }
	errortest.Exactly(t, RuntimeClass(newClass()))
	bad := newClass()
	bad.Handler = "A"
	bad.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("-1")}}
	tolerates := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}
	bad.Scheduling = &nodev1.Scheduling{
		NodeSelector: map[string]string{"a": "_"}, Tolerations: []corev1.Toleration{tolerates, tolerates, {Operator: corev1.TolerationOpEqual}},
	}
	errortest.Exactly(t, RuntimeClass(bad),
		`handler: Invalid value: "A": `+badLabel,
		`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
		`scheduling.nodeSelector: Invalid value: "_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		"scheduling.tolerations.tolerations[2].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
		`scheduling.tolerations[1]: Duplicate value: {"key":"k","operator":"Exists"}`)
	changed := newClass()
	changed.Handler, changed.Labels = "kata", map[string]string{"a": "b"}
	errortest.Exactly(t, RuntimeClassUpdate(changed, newClass()), `handler: Invalid value: "kata": field is immutable`)
}

func TestAPIService(t *testing.T) {
	type service = *apiregistrationv1.APIService
	newService := func() service {
		return &apiregistrationv1.APIService{ObjectMeta: meta("v1.example.com"), Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", GroupPriorityMinimum: 20000, VersionPriority: 1000,
		}}
	}
	remote := func(change func(service)) func(service) {
		return func(s service) {
			s.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s"}
			defaults.APIService(s)
			change(s)
		}
	}
	for name, tc := range map[string]struct {
		change func(service)
		want   []string
	}{
		"local":          {change: func(service) {}},
		"remote":         {change: remote(func(service) {})},
		"another name":   {change: func(s service) { s.Name = "v2.example.com" }, want: []string{"metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\""}},
		"a path":         {change: func(s service) { s.Name = "a/b" }, want: []string{`metadata.name: Invalid value: "a/b": may not contain '/'`}},
		"the core":       {change: func(s service) { s.Name, s.Spec.Group = "v1.", "" }},
		"another core":   {change: func(s service) { s.Name, s.Spec.Group, s.Spec.Version = "v2.", "", "v2" }, want: []string{"spec.group: Required value: only v1 may have an empty group and it better be legacy kube"}},
		"a bad group":    {change: func(s service) { s.Name, s.Spec.Group = "v1.A", "A" }, want: []string{`spec.group: Invalid value: "A": ` + badSubdomain}},
		"a bad version":  {change: func(s service) { s.Name, s.Spec.Version = "1.example.com", "1" }, want: []string{`spec.version: Invalid value: "1": ` + badVersion}},
		"low priorities": {change: func(s service) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 0, 0 }, want: []string{"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000", "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"}},
		"high priorities": {change: func(s service) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 20001, 1001 }, want: []string{
			"spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000", "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
		}},
		"a local one's TLS": {
			change: func(s service) { s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = []byte("abc"), true },
			want:   []string{`spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle`, "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"},
		},
		"no service": {
			change: remote(func(s service) { s.Spec.Service = &apiregistrationv1.ServiceReference{Port: new(int32(70000))} }),
			want:   []string{"spec.service.namespace: Required value", "spec.service.name: Required value", "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"},
		},
		"trust and no trust": {
			change: remote(func(s service) { s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = []byte("abc"), true }),
			want:   []string{"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService()
			tc.change(s)
			errortest.Exactly(t, APIService(s), tc.want...)
			s.ResourceVersion = ""
			errortest.Exactly(t, APIServiceUpdate(s, s), append([]string{`metadata.resourceVersion: Invalid value: "": must be specified for an update`}, tc.want...)...)
		})
	}
	s := newService()
	s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Status: "True"}, {Status: "Odd"}}
	errortest.Exactly(t, APIServiceStatus(s, s), `status.conditions[1].status: Unsupported value: "Odd": supported values: "True", "False", "Unknown"`)
}

func TestFlowSchema(t *testing.T) {
	type schema = *flowcontrolv1.FlowSchema
	newSchema := func() schema {
		return &flowcontrolv1.FlowSchema{ObjectMeta: meta("x"), Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence:         50,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "low"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "ann"}}},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"*"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"/healthz/*", "/"}}},
			}},
		}}
	}
	subject := func(subject flowcontrolv1.Subject) func(schema) {
		return func(s schema) { s.Spec.Rules[0].Subjects[0] = subject }
	}
	user, group, account := &flowcontrolv1.UserSubject{}, &flowcontrolv1.GroupSubject{}, &flowcontrolv1.ServiceAccountSubject{Name: "*", Namespace: "ns"}
	for name, tc := range map[string]struct {
		change func(schema)
		want   []string
	}{
		"fine":               {change: func(schema) {}},
		"no precedence":      {change: func(s schema) { s.Spec.MatchingPrecedence = 0 }, want: []string{"spec.matchingPrecedence: Invalid value: 0: must be a positive value"}},
		"a high precedence":  {change: func(s schema) { s.Spec.MatchingPrecedence = 10001 }, want: []string{"spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"}},
		"the first":          {change: func(s schema) { s.Spec.MatchingPrecedence = 1 }, want: []string{"spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"}},
		"an unknown method":  {change: func(s schema) { s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: "Odd"} }, want: []string{`spec.distinguisherMethod.type: Unsupported value: {"type":"Odd"}: supported values: "ByNamespace", "ByUser"`}},
		"no level":           {change: func(s schema) { s.Spec.PriorityLevelConfiguration.Name = "" }, want: []string{"spec.priorityLevelConfiguration.name: Required value: must reference a priority level"}},
		"a bad level":        {change: func(s schema) { s.Spec.PriorityLevelConfiguration.Name = "A" }, want: []string{`spec.priorityLevelConfiguration.name: Invalid value: "A": ` + badSubdomain}},
		"an empty rule":      {change: func(s schema) { s.Spec.Rules[0] = flowcontrolv1.PolicyRulesWithSubjects{} }, want: []string{"spec.rules[0].subjects: Required value: subjects must contain at least one value", "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"}},
		"an unknown subject": {change: subject(flowcontrolv1.Subject{Kind: "Odd"}), want: []string{`spec.rules[0].subjects[0].kind: Unsupported value: "Odd": supported values: "Group", "ServiceAccount", "User"`}},
		"no user":            {change: subject(flowcontrolv1.Subject{Kind: "User"}), want: []string{"spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'"}},
		"a user and more":    {change: subject(flowcontrolv1.Subject{Kind: "User", User: user, Group: group, ServiceAccount: account}), want: []string{"spec.rules[0].subjects[0].user.name: Required value", "spec.rules[0].subjects[0].serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'", "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'"}},
		"no group":           {change: subject(flowcontrolv1.Subject{Kind: "Group"}), want: []string{"spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'"}},
		"a group and a user": {change: subject(flowcontrolv1.Subject{Kind: "Group", Group: group, User: user}), want: []string{"spec.rules[0].subjects[0].group.name: Required value", "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'"}},
		"no account":         {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount"}), want: []string{"spec.rules[0].subjects[0].serviceAccount: Required value: serviceAccount is required when subject kind is 'ServiceAccount'"}},
		"all accounts":       {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: account})},
		"an empty account":   {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{}}), want: []string{"spec.rules[0].subjects[0].serviceAccount.name: Required value", "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account"}},
		"a bad account":      {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: "A", Namespace: "B"}}), want: []string{`spec.rules[0].subjects[0].serviceAccount.name: Invalid value: "A": ` + badSubdomain, `spec.rules[0].subjects[0].serviceAccount.namespace: Invalid value: "B": ` + badLabel}},
		"an empty resource":  {change: func(s schema) { s.Spec.Rules[0].ResourceRules[0] = flowcontrolv1.ResourcePolicyRule{} }, want: []string{"spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value", "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group", "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource", "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"}},
		"all and more": {change: func(s schema) {
			all := []string{"*", "x"}
			s.Spec.Rules[0].ResourceRules[0] = flowcontrolv1.ResourcePolicyRule{Verbs: all, APIGroups: all, Resources: all, Namespaces: all}
		}, want: []string{`spec.rules[0].resourceRules[0].verbs: Invalid value: ["*","x"]: if '*' is present, must not specify other verbs`, `spec.rules[0].resourceRules[0].apiGroups: Invalid value: ["*","x"]: if '*' is present, must not specify other api groups`, `spec.rules[0].resourceRules[0].resources: Invalid value: ["*","x"]: if '*' is present, must not specify other resources`, `spec.rules[0].resourceRules[0].namespaces: Invalid value: ["*","x"]: if '*' is present, must not specify other namespaces`}},
		"a bad verb":        {change: func(s schema) { s.Spec.Rules[0].ResourceRules[0].Verbs = []string{"get", "fly"} }, want: []string{`spec.rules[0].resourceRules[0].verbs: Unsupported value: ["get","fly"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"`}},
		"a bad namespace":   {change: func(s schema) { s.Spec.Rules[0].ResourceRules[0].Namespaces = []string{"A"} }, want: []string{`spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: "A": each member of this list must be '*' or a DNS-1123 label; ` + badLabel}},
		"no URLs":           {change: func(s schema) { s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = nil }, want: []string{"spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value"}},
		"all URLs and more": {change: func(s schema) { s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = []string{"*", "/"} }, want: []string{`spec.rules[0].nonResourceRules[0].nonResourceURLs: Invalid value: ["*","/"]: if '*' is present, must not specify other non-resource URLs`}},
		"bad URLs": {change: func(s schema) {
			s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = []string{"", "x", "/a b", "//", "/a*", "/*/*"}
		}, want: []string{`spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "": must not be empty`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "x": must start with slash`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a b": must not contain white-space`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: "//": must not contain double slash`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[4]: Invalid value: "/a*": wildcard can only do suffix matching`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[5]: Invalid value: "/*/*": wildcard can only do suffix matching`}},
		"conditions": {change: func(s schema) {
			s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "a"}, {Type: "a"}, {}}
		}, want: []string{`status.conditions[1].type: Duplicate value: "a"`, "status.conditions[2].type: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchema()
			tc.change(s)
			errortest.Exactly(t, FlowSchema(s), tc.want...)
			errortest.Exactly(t, FlowSchemaUpdate(s, s), tc.want...)
		})
	}
	for _, s := range flowcontrol.FlowSchemas() {
		before := s.DeepCopy()
		defaults.FlowSchema(s)
		if errortest.Exactly(t, FlowSchema(s)); before.Spec.MatchingPrecedence != s.Spec.MatchingPrecedence {
			t.Errorf("setting the defaults changed %s", s.Name)
		}
	}
	fixed := flowcontrol.FlowSchemas()[0]
	fixed.Spec.MatchingPrecedence = 2
	errortest.Contain(t, FlowSchema(fixed), "spec: Invalid value: ", "spec of 'exempt' must equal the fixed value")
}

func TestPriorityLevel(t *testing.T) {
	type level = *flowcontrolv1.PriorityLevelConfiguration
	newLevel := func() level {
		p := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta("x"), Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{
				Type: "Queue", Queuing: &flowcontrolv1.QueuingConfiguration{},
			}},
		}}
		defaults.PriorityLevel(p)
		return p
	}
	for name, tc := range map[string]struct {
		change func(level)
		want   []string
	}{
		"fine":                {change: func(level) {}},
		"an older annotation": {change: func(p level) { p.Annotations = map[string]string{preservesZero: ""} }, want: []string{"metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden"}},
		"an exempt one": {
			change: func(p level) {
				p.Spec.Type, p.Spec.Exempt = "Exempt", &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(-1)), LendablePercent: new(int32(101))}
			},
			want: []string{"spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'", "spec.limited: Forbidden: must be nil if the type is not Limited", "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer", "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"},
		},
		"no type":         {change: func(p level) { p.Spec.Type = "" }, want: []string{"spec.type: Required value"}},
		"an unknown type": {change: func(p level) { p.Spec.Type = "Odd" }, want: []string{`spec.type: Unsupported value: "Odd": supported values: "Exempt", "Limited"`}},
		"nothing": {change: func(p level) { p.Spec.Limited, p.Spec.Exempt = nil, &flowcontrolv1.ExemptPriorityLevelConfiguration{} }, want: []string{
			"spec.exempt: Forbidden: must be nil if the type is Limited", "spec.limited: Required value: must not be empty when type is Limited",
		}},
		"nothing to borrow": {change: func(p level) { p.Spec.Limited.BorrowingLimitPercent = new(int32(0)) }},
		"shares": {
			change: func(p level) {
				p.Spec.Limited.NominalConcurrencyShares, p.Spec.Limited.LendablePercent, p.Spec.Limited.BorrowingLimitPercent = new(int32(-1)), new(int32(-1)), new(int32(-1))
			},
			want: []string{"spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer", "spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive", "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"},
		},
		"no response":         {change: func(p level) { p.Spec.Limited.LimitResponse.Type = "" }, want: []string{"spec.limited.limitResponse.type: Required value"}},
		"an unknown response": {change: func(p level) { p.Spec.Limited.LimitResponse.Type = "Odd" }, want: []string{`spec.limited.limitResponse.type: Unsupported value: "Odd": supported values: "Queue", "Reject"`}},
		"queues to reject":    {change: func(p level) { p.Spec.Limited.LimitResponse.Type = "Reject" }, want: []string{"spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"}},
		"no queues":           {change: func(p level) { p.Spec.Limited.LimitResponse.Queuing = nil }, want: []string{"spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited"}},
		"negative queues": {
			change: func(p level) {
				*p.Spec.Limited.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{Queues: -1, HandSize: -1, QueueLengthLimit: -1}
			},
			want: []string{"spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive", "spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive", "spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive"},
		},
		"too many queues": {
			change: func(p level) {
				*p.Spec.Limited.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{Queues: 10000001, HandSize: 3, QueueLengthLimit: 1}
			},
			want: []string{"spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000", "spec.limited.limitResponse.queuing.handSize: Invalid value: 3: required entropy bits of deckSize 10000001 and handSize 3 should not be greater than 60"},
		},
		"a large hand": {change: func(p level) { p.Spec.Limited.LimitResponse.Queuing.HandSize = 65 }, want: []string{"spec.limited.limitResponse.queuing.handSize: Invalid value: 65: should not be greater than queues (64)"}},
		"conditions":   {change: func(p level) { p.Status.Conditions = []flowcontrolv1.PriorityLevelConfigurationCondition{{}} }, want: []string{"status.conditions[0].type: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLevel()
			tc.change(p)
			errortest.Exactly(t, PriorityLevel(p), tc.want...)
			errortest.Exactly(t, PriorityLevelUpdate(p, p), tc.want...)
		})
	}
	for _, p := range flowcontrol.PriorityLevels() {
		defaults.PriorityLevel(p)
		errortest.Exactly(t, PriorityLevel(p))
	}
	exempt, catchAll := flowcontrol.PriorityLevels()[0], flowcontrol.PriorityLevels()[1]
	exempt.Spec.Exempt.LendablePercent = new(int32(50))
	errortest.Exactly(t, PriorityLevel(exempt))
	catchAll.Spec.Limited.NominalConcurrencyShares = new(int32(6))
	errortest.Contain(t, PriorityLevel(catchAll), "spec of 'catch-all' must equal the fixed value")
	exempt.Spec.Type = "Limited"
	errortest.Contain(t, PriorityLevel(exempt), "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value")
}
