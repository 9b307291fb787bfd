package policies_test

import (
	"context"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// TestHostileExpressions checks that expressions that would take forever, or return too much, end in time
// with an error.
func TestHostileExpressions(t *testing.T) {
	const budget = "validation failed due to running out of cost budget, no further validation rules will be run"
	list := "[" + strings.Repeat("1,", 99) + "1]"
	nested := func(depth int) string { return nest(list, depth) }
	for name, tc := range map[string]struct{ spec, want string }{
		"a loop of loops":     {spec: `validations: [{expression: "` + nested(5) + `"}]`, want: "operation cancelled: actual cost limit exceeded"},
		"a loop in a message": {spec: `validations: [{expression: "false", message: m, messageExpression: "` + nested(5) + ` ? 'a' : 'b'"}]`, want: "m"},
		"a loop in a match condition": {
			spec: `matchConditions: [{name: a, expression: "` + nested(5) + `"}]` + "\n" + `validations: [{expression: "true"}]`, want: "operation cancelled: actual cost limit exceeded",
		},
		"a loop in a variable": {
			spec: `variables: [{name: v, expression: "` + nested(5) + `"}]` + "\n" + `validations: [{expression: "variables.v"}]`, want: "operation cancelled: actual cost limit exceeded",
		},
		"many loops": {
			// Texts cost more than they take, so that 10,000 steps of a loop are nearly all that an expression may cost.
			spec: `variables: [{name: l, expression: "` + list + `"}, {name: s, expression: "'` + strings.Repeat("x", 800) + `'"}]` + "\n" + `validations: [` +
				strings.Repeat(`{expression: "variables.l.all(i, variables.l.all(j, !variables.s.contains('y')))"}, `, 40) + "]", want: budget,
		},
		"deep recursion":     {spec: `validations: [{expression: "` + strings.Repeat("(", 10000) + "true" + strings.Repeat(")", 10000) + `"}]`, want: "compilation error: compilation failed: "},
		"deep negation":      {spec: `validations: [{expression: "` + strings.Repeat("!(", 300) + "true" + strings.Repeat(")", 300) + `"}]`, want: "compilation error: compilation failed: "},
		"deep lists":         {spec: `validations: [{expression: "` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + ` == []"}]`, want: "compilation error: compilation failed: "},
		"a huge message":     {spec: `validations: [{expression: "false", message: m, messageExpression: "` + list + `.map(i, '` + strings.Repeat("x", 1000) + `').join('')"}]`, want: "m"},
		"a huge string":      {spec: `variables: [{name: s, expression: "'` + strings.Repeat("x", 1000) + `'"}]` + "\n" + `validations: [{expression: "` + list + `.map(i, ` + list + `.map(j, ` + list + `.map(k, variables.s)).size()).size() == 0"}]`, want: ""},
		"a bad expression":   {spec: `validations: [{expression: "'` + strings.Repeat("a", 1000) + `b'.matches('(a*)*(a*)*(a*)*c')"}]`, want: "failed expression: "},
		"a variable of none": {spec: `validations: [{expression: "variables.missing"}]`, want: "compilation error: compilation failed: "},
		"a cycle of variables": {
			spec: `variables: [{name: a, expression: "variables.b"}, {name: b, expression: "variables.a"}]` + "\n" + `validations: [{expression: "variables.b == 1"}]`,
			want: "expression 'variables.b == 1' resulted in error: composited variable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy(tc.spec, ""))
			err := w.create(pod()).err
			if err == nil || !strings.HasPrefix(err.Error(), denied("")) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %.300v, want %s", err, tc.want)
			}
		})
	}
}

// TestDeadline checks that an evaluation ends with its request.
func TestDeadline(t *testing.T) {
	w := newWorld(t, policy(`validations: [{expression: "`+nest("["+strings.Repeat("1,", 99)+"1]", 2)+`"}]`, ""))
	w.create(pod()).expect(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := pod()
	err := w.chain.Validate(ctx, &admission.Request{Verb: admission.Create, Kind: w.Table.KindOf(p), Namespace: "ns", Name: "p", Object: p})
	if err == nil || !strings.Contains(err.Error(), "resulted in error: operation interrupted") {
		t.Errorf("got %.300v", err)
	}
}

func nest(list string, depth int) string {
	if depth == 0 {
		return "true"
	}
	return list + ".all(i" + strings.Repeat("i", depth) + ", " + nest(list, depth-1) + ")"
}

// TestMetrics checks what is counted, and that the series of a policy end with it.
func TestMetrics(t *testing.T) {
	w := newWorld(t, policy(`matchConditions: [{name: a, expression: "true"}]`+"\n"+`validations: [{expression: "false", message: m}, {expression: "object.no == 1"}, {expression: "true"}]`,
		"validationActions: [Deny, Audit]")+
		mutatingOf("m", applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`), "")+
		strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(policy(`failurePolicy: Ignore`+"\n"+`validations: [{expression: "1 +"}]`, "validationActions: [Warn]"), "{name: p}", "{name: q}"), "{name: b}", "{name: c}"), `"policyName":"p"`, `"policyName":"q"`))
	w.create(pod())
	got := func() map[string]float64 {
		counts := map[string]float64{}
		families, err := w.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				count := m.GetCounter().GetValue()
				if m.GetHistogram() != nil {
					count = float64(m.GetHistogram().GetSampleCount())
				}
				counts[strings.TrimPrefix(family.GetName(), "apiserver_")+" "+strings.Join(labels, " ")] = count
			}
		}
		return counts
	}
	counts := got()
	for series, want := range map[string]float64{
		"validating_admission_policy_check_total deny invalid_error p b":            2,
		"validating_admission_policy_check_total audit invalid_error p b":           2,
		"validating_admission_policy_check_total allow compile_error q c":           1,
		"validating_admission_policy_check_duration_seconds deny invalid_error p b": 2,
		"mutating_admission_policy_check_total no_error m m":                        1,
		"mutating_admission_policy_check_duration_seconds no_error m m":             1,
		"admission_match_condition_evaluation_seconds policy p CREATE validate":     1,
	} {
		if counts[series] != want {
			t.Errorf("%s: got %v, want %v; all are %v", series, counts[series], want, counts)
		}
	}
	for _, kind := range w.Table.Kinds() {
		if strings.HasSuffix(kind.Kind, "AdmissionPolicy") {
			for _, name := range []string{"p", "q", "m"} {
				obj := kind.New()
				obj.SetName(name)
				w.Remove(obj)
			}
		}
	}
	w.create(pod()).expect(t, "")
	if counts := got(); len(counts) > 0 {
		t.Errorf("left are %v", counts)
	}
}
