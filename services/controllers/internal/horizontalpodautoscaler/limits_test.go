package horizontalpodautoscaler

import (
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

func addPods(n, period int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: period}
}

func addPercent(n, period int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: period}
}

// rulesOf returns rules with a window in seconds.
func rulesOf(of autoscalingv2.ScalingPolicySelect, window int32, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{SelectPolicy: &of, StabilizationWindowSeconds: &window, Policies: policies}
}

// unlimited returns rules with a window in seconds that allow every change.
func unlimited(window int32) *autoscalingv2.HPAScalingRules {
	return rulesOf(autoscalingv2.MaxChangePolicySelect, window, addPods(math.MaxInt32, 15))
}

// spread returns changes, at equal distances in the time before now.
func spread(now time.Time, period time.Duration, changes ...int32) (list []moment) {
	for i, n := range changes {
		list = append(list, moment{n, now.Add(-period + time.Duration(i+1)*period/time.Duration(len(changes)+1))})
	}
	return list
}

// passOf returns a pass of an autoscaler without metrics.
func passOf(least, most int32, behavior *autoscalingv2.HorizontalPodAutoscalerBehavior, now time.Time) *pass {
	object := hpa("one", least, most)
	object.Spec.Behavior = behavior
	return &pass{reconciler: &reconciler{options: DefaultOptions()}, hpa: object, history: &history{}, now: now}
}

// condition returns "status reason" of a condition.
func (p *pass) condition(of autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range p.hpa.Status.Conditions {
		if c.Type == of {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// TestLimitsByPolicies checks how far policies let a target grow and shrink, also after earlier changes.
func TestLimitsByPolicies(t *testing.T) {
	const (
		inRange, few, many = "False DesiredWithinRange", "True TooFewReplicas", "True TooManyReplicas"
		upLimit, downLimit = "True ScaleUpLimit", "True ScaleDownLimit"
		most, least, off   = autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect
	)
	two := 2 * time.Minute
	unselected := rulesOf(most, 0, addPods(2, 60), addPercent(100, 60))
	unselected.SelectPolicy = nil
	for name, c := range map[string]struct {
		lower, upper    int32 // 1 and 1000 if 0
		up, down        *autoscalingv2.HPAScalingRules
		rose, fell      []int32 // within the last two minutes
		current, wanted int32
		want            int32
		limited         string
	}{
		"up in range":                      {current: 5, wanted: 7, upper: 8, want: 7, limited: inRange},
		"at the upper bound":               {current: 5, wanted: 8, upper: 8, want: 8, limited: inRange},
		"above the upper bound":            {current: 5, wanted: 9, upper: 8, want: 8, limited: many},
		"at the lower bound":               {current: 5, wanted: 2, lower: 2, want: 2, limited: inRange},
		"below the lower bound":            {current: 3, wanted: 1, lower: 2, want: 2, limited: few},
		"as it is":                         {current: 5, wanted: 5, want: 5, limited: inRange},
		"the bound is as far as the rate":  {up: rulesOf(most, 0, addPods(5, 60)), upper: 15, current: 10, wanted: 50, want: 15, limited: many},
		"the rate ends below the bound":    {up: rulesOf(most, 0, addPods(4, 60)), upper: 15, current: 10, wanted: 50, want: 14, limited: upLimit},
		"up by most: pods":                 {up: rulesOf(most, 0, addPods(100, 60), addPercent(100, 60)), current: 10, wanted: 500, want: 110, limited: upLimit},
		"up by most: percent":              {up: rulesOf(most, 0, addPods(2, 60), addPercent(100, 60)), current: 10, wanted: 500, want: 20, limited: upLimit},
		"up by most, percent first":        {up: rulesOf(most, 0, addPercent(100, 60), addPods(2, 60)), current: 10, wanted: 500, want: 20, limited: upLimit},
		"up by least: pods":                {up: rulesOf(least, 0, addPods(2, 60), addPercent(100, 60)), current: 10, wanted: 500, want: 12, limited: upLimit},
		"up by least, pods last":           {up: rulesOf(least, 0, addPercent(100, 60), addPods(2, 60)), current: 10, wanted: 500, want: 12, limited: upLimit},
		"up by least of three":             {up: rulesOf(least, 0, addPods(9, 60), addPercent(30, 60), addPods(7, 60)), current: 10, wanted: 500, want: 13, limited: upLimit},
		"up by what is not selected":       {up: unselected, current: 10, wanted: 500, want: 20, limited: upLimit},
		"up is off":                        {up: rulesOf(off, 0, addPods(100, 60)), current: 10, wanted: 11, want: 10, limited: upLimit},
		"up is off at the bound":           {up: rulesOf(off, 0, addPods(100, 60)), upper: 10, current: 10, wanted: 11, want: 10, limited: many},
		"down while up is off":             {up: rulesOf(off, 0, addPods(100, 60)), current: 10, wanted: 4, want: 4, limited: inRange},
		"a share of few rounds up":         {up: rulesOf(most, 0, addPercent(1, 60)), current: 3, wanted: 1000, want: 4, limited: upLimit},
		"a share down rounds down":         {down: rulesOf(most, 0, addPercent(50, 60)), current: 5, wanted: 1, want: 2, limited: downLimit},
		"down by most: pods":               {down: rulesOf(most, 0, addPods(20, 60), addPercent(1, 60)), current: 100, wanted: 2, want: 80, limited: downLimit},
		"down by most: percent":            {down: rulesOf(most, 0, addPods(2, 60), addPercent(10, 60)), current: 100, wanted: 2, want: 90, limited: downLimit},
		"down by least: pods":              {down: rulesOf(least, 0, addPods(2, 60), addPercent(10, 60)), current: 100, wanted: 2, want: 98, limited: downLimit},
		"down by least: percent":           {down: rulesOf(least, 0, addPods(20, 60), addPercent(1, 60)), current: 100, wanted: 2, want: 99, limited: downLimit},
		"down is off":                      {down: rulesOf(off, 0, addPods(100, 60)), current: 10, wanted: 9, want: 10, limited: downLimit},
		"up while down is off":             {down: rulesOf(off, 0, addPods(100, 60)), current: 10, wanted: 12, want: 12, limited: inRange},
		"down to zero":                     {lower: -1, down: rulesOf(most, 0, addPercent(100, 60)), current: 3, wanted: 0, want: 0, limited: inRange},
		"below a bound by percent":         {lower: 5, down: rulesOf(most, 0, addPercent(100, 60)), current: 10, wanted: 2, want: 5, limited: few},
		"more than all":                    {lower: 1, down: rulesOf(most, 0, addPercent(1000, 120)), fell: []int32{10, 10, 10}, current: 10, wanted: 5, want: 5, limited: inRange},
		"pods since they rose":             {up: rulesOf(most, 0, addPods(150, 120)), rose: []int32{1, 5, 9}, current: 100, wanted: 500, want: 235, limited: upLimit},
		"percent since they rose":          {up: rulesOf(most, 0, addPercent(200, 120)), rose: []int32{1, 5, 9}, current: 100, wanted: 500, want: 255, limited: upLimit},
		"only the last of what rose":       {up: rulesOf(most, 0, addPods(150, 45)), rose: []int32{1, 5, 9}, current: 100, wanted: 500, want: 241, limited: upLimit},
		"two periods, the shorter allows":  {up: rulesOf(most, 0, addPods(20, 120), addPods(10, 20)), rose: []int32{1, 5, 9}, current: 100, wanted: 500, want: 110, limited: upLimit},
		"two periods, the longer holds":    {up: rulesOf(least, 0, addPods(20, 120), addPods(10, 20)), rose: []int32{1, 5, 9}, current: 100, wanted: 500, want: 105, limited: upLimit},
		"it rose too much":                 {up: rulesOf(most, 0, addPods(5, 120)), rose: []int32{1, 5, 9}, current: 100, wanted: 500, want: 100, limited: upLimit},
		"it rose and fell, and rises":      {up: rulesOf(most, 0, addPercent(300, 300)), rose: []int32{4}, fell: []int32{2}, current: 6, wanted: 24, want: 16, limited: upLimit},
		"it rose and fell, and falls":      {down: rulesOf(most, 0, addPercent(50, 180)), rose: []int32{2}, fell: []int32{4}, current: 10, wanted: 1, want: 6, limited: downLimit},
		"percent since they fell":          {down: rulesOf(most, 0, addPercent(50, 120)), fell: []int32{2, 4, 6}, current: 100, wanted: 0, want: 56, limited: downLimit},
		"pods since they fell, to a bound": {lower: 5, down: rulesOf(most, 0, addPods(130, 120)), fell: []int32{1, 5, 9}, current: 100, wanted: 0, want: 5, limited: few},
		"it fell too much":                 {down: rulesOf(most, 0, addPercent(10, 120)), fell: []int32{10, 10, 10}, current: 100, wanted: 0, want: 100, limited: downLimit},
		"more than there can be": {
			upper: math.MaxInt32, up: rulesOf(most, 0, addPercent(math.MaxInt32, 60), addPods(math.MaxInt32, 60)),
			current: math.MaxInt32 - 1, wanted: math.MaxInt32, want: math.MaxInt32, limited: inRange,
		},
	} {
		t.Run(name, func(t *testing.T) {
			behavior := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: c.up, ScaleDown: c.down}
			if c.up == nil {
				behavior.ScaleUp = unlimited(0)
			}
			if c.down == nil {
				behavior.ScaleDown = unlimited(0)
			}
			lower, upper := c.lower, c.upper
			if lower == 0 {
				lower = 1
			}
			if upper == 0 {
				upper = 1000
			}
			now := time.Now()
			p := passOf(max(lower, 0), upper, behavior, now)
			p.history.up, p.history.down = spread(now, two, c.rose...), spread(now, two, c.fell...)
			got, limited := p.limitByBehavior(c.current, c.wanted), p.condition(autoscalingv2.ScalingLimited)
			if got != c.want || limited != c.limited {
				t.Errorf("got %d replicas and ScalingLimited %s, want %d and %s", got, limited, c.want, c.limited)
			}
			if able := p.condition(autoscalingv2.AbleToScale); able != "True ReadyForNewScale" {
				t.Errorf("got AbleToScale %s without windows", able)
			}
		})
	}
}

// TestStabilizes checks that recommendations count for as long as the window of their direction is.
func TestStabilizes(t *testing.T) {
	const ready, up, down = "True ReadyForNewScale", "True ScaleUpStabilized", "True ScaleDownStabilized"
	for name, c := range map[string]struct {
		upWindow, downWindow int32
		recommended          map[time.Duration]int32 // by how long ago
		current, wanted      int32
		want                 int32
		able                 string
	}{
		"nothing before":               {current: 100, wanted: 5, want: 5, able: ready},
		"down to the highest":          {downWindow: 180, recommended: map[time.Duration]int32{120: 4, 60: 5}, current: 100, wanted: 3, want: 5, able: down},
		"up to the lowest":             {upWindow: 300, recommended: map[time.Duration]int32{120: 4, 60: 5}, current: 1, wanted: 7, want: 4, able: up},
		"no window down":               {upWindow: 300, recommended: map[time.Duration]int32{120: 1, 60: 2}, current: 100, wanted: 3, want: 3, able: ready},
		"no window up":                 {downWindow: 300, recommended: map[time.Duration]int32{120: 4, 60: 5}, current: 1, wanted: 3, want: 3, able: ready},
		"the older ones do not count":  {downWindow: 90, recommended: map[time.Duration]int32{120: 9, 60: 5}, current: 100, wanted: 3, want: 5, able: down},
		"at the window's end, down":    {downWindow: 60, recommended: map[time.Duration]int32{60: 5}, current: 100, wanted: 3, want: 3, able: ready},
		"at the window's end, up":      {upWindow: 60, recommended: map[time.Duration]int32{60: 2}, current: 1, wanted: 3, want: 3, able: ready},
		"not up while it goes down":    {upWindow: 300, downWindow: 300, recommended: map[time.Duration]int32{180: 3}, current: 2, wanted: 1, want: 2, able: down},
		"not down while it goes up":    {upWindow: 300, downWindow: 300, recommended: map[time.Duration]int32{180: 1}, current: 2, wanted: 3, want: 2, able: up},
		"it stays, and was lower":      {upWindow: 300, downWindow: 300, recommended: map[time.Duration]int32{180: 1}, current: 2, wanted: 2, want: 2, able: ready},
		"windows of their own lengths": {upWindow: 60, downWindow: 300, recommended: map[time.Duration]int32{200: 9, 180: 1}, current: 5, wanted: 7, want: 7, able: ready},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			p := passOf(1, 1000, &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp: unlimited(c.upWindow), ScaleDown: unlimited(c.downWindow),
			}, now)
			for ago := time.Duration(1000); ago > 0; ago-- {
				if n, found := c.recommended[ago]; found {
					p.history.recommended = append(p.history.recommended, moment{n, now.Add(-ago * time.Second)})
				}
			}
			got, able := p.limitByBehavior(c.current, c.wanted), p.condition(autoscalingv2.AbleToScale)
			if got != c.want || able != c.able {
				t.Errorf("got %d replicas and AbleToScale %s, want %d and %s", got, able, c.want, c.able)
			}
			if limited := p.condition(autoscalingv2.ScalingLimited); limited != "False DesiredWithinRange" {
				t.Errorf("got ScalingLimited %s, which windows do not set", limited)
			}
			if last := p.history.recommended[len(p.history.recommended)-1]; last != (moment{c.wanted, now}) {
				t.Errorf("remembers %v, not what was wanted", last)
			}
		})
	}
}

// TestLimitsWithoutBehavior checks the rate and the window of an autoscaler that sets none.
func TestLimitsWithoutBehavior(t *testing.T) {
	const ready, stabilized = "True ReadyForNewScale", "True ScaleDownStabilized"
	for name, c := range map[string]struct {
		lower, upper    int32
		recommended     int32 // before ago; none if it is 0
		ago             time.Duration
		current, wanted int32
		want            int32
		able, limited   string
	}{
		"in range":             {lower: 3, upper: 8, current: 5, wanted: 7, want: 7, able: ready, limited: "False DesiredWithinRange"},
		"too few":              {lower: 2, upper: 8, current: 3, wanted: 1, want: 2, able: ready, limited: "True TooFewReplicas"},
		"zero":                 {lower: 0, upper: 10, current: 1, wanted: 0, want: 0, able: ready, limited: "False DesiredWithinRange"},
		"too many":             {lower: 1, upper: 10, current: 20, wanted: 1000, want: 10, able: ready, limited: "True TooManyReplicas"},
		"too fast":             {lower: 1, upper: 2000, current: 3, wanted: 1000, want: 6, able: ready, limited: "True ScaleUpLimit"},
		"from one":             {lower: 1, upper: 2000, current: 1, wanted: 1000, want: 4, able: ready, limited: "True ScaleUpLimit"},
		"twice is the bound":   {lower: 1, upper: 6, current: 3, wanted: 1000, want: 6, able: ready, limited: "True TooManyReplicas"},
		"the highest counts":   {lower: 1, upper: 9, recommended: 4, ago: 4 * time.Minute, current: 5, wanted: 2, want: 4, able: stabilized, limited: "False DesiredWithinRange"},
		"the highest, limited": {lower: 1, upper: 6, recommended: 8, ago: 4 * time.Minute, current: 5, wanted: 2, want: 6, able: stabilized, limited: "True TooManyReplicas"},
		"at the window's end":  {lower: 1, upper: 9, recommended: 4, ago: 5 * time.Minute, current: 5, wanted: 2, want: 4, able: stabilized, limited: "False DesiredWithinRange"},
		"after the window":     {lower: 1, upper: 9, recommended: 4, ago: 5*time.Minute + 1, current: 5, wanted: 2, want: 2, able: ready, limited: "False DesiredWithinRange"},
		"lower ones do not":    {lower: 1, upper: 9, recommended: 1, ago: time.Minute, current: 5, wanted: 7, want: 7, able: ready, limited: "False DesiredWithinRange"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			p := passOf(c.lower, c.upper, nil, now)
			if c.recommended > 0 {
				p.history.recommended = []moment{{c.recommended, now.Add(-c.ago)}}
			}
			got := p.limit(c.current, c.wanted)
			able, limited := p.condition(autoscalingv2.AbleToScale), p.condition(autoscalingv2.ScalingLimited)
			if got != c.want || able != c.able || limited != c.limited {
				t.Errorf("got %d replicas, AbleToScale %s, ScalingLimited %s; want %d, %s, %s", got, able, limited, c.want, c.able, c.limited)
			}
		})
	}
}

// TestUnsetWindows checks which windows count if a behavior does not set them.
func TestUnsetWindows(t *testing.T) {
	for name, c := range map[string]struct {
		behavior autoscalingv2.HorizontalPodAutoscalerBehavior
		up, down int32
	}{
		"no rules":   {autoscalingv2.HorizontalPodAutoscalerBehavior{}, 0, 300},
		"no windows": {autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{}, ScaleDown: &autoscalingv2.HPAScalingRules{}}, 0, 300},
		"own":        {autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: unlimited(7), ScaleDown: unlimited(9)}, 7, 9},
		"own, none":  {autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: unlimited(0), ScaleDown: unlimited(0)}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			up, down := passOf(1, 9, &c.behavior, time.Now()).rules()
			if *up.StabilizationWindowSeconds != c.up || *down.StabilizationWindowSeconds != c.down {
				t.Errorf("got windows of %ds up and %ds down, want %ds and %ds",
					*up.StabilizationWindowSeconds, *down.StabilizationWindowSeconds, c.up, c.down)
			}
		})
	}
}

// TestTransitionTimes checks that a condition's time is that of its last change of status.
func TestTransitionTimes(t *testing.T) {
	start := time.Now()
	p := passOf(1, 9, nil, start)
	for i, c := range []struct {
		status corev1.ConditionStatus
		reason string
		want   int // the step whose time counts
	}{{corev1.ConditionTrue, "A", 0}, {corev1.ConditionTrue, "B", 0}, {corev1.ConditionFalse, "B", 2}, {corev1.ConditionTrue, "A", 3}} {
		p.now = start.Add(time.Duration(i) * time.Minute)
		p.set(autoscalingv2.ScalingActive, c.status, c.reason, "step %d", i)
		got := p.hpa.Status.Conditions
		if len(got) != 1 || got[0].Reason != c.reason || !got[0].LastTransitionTime.Time.Equal(start.Add(time.Duration(c.want)*time.Minute)) {
			t.Errorf("step %d: got %+v", i, got)
		}
	}
}

// TestCheck checks that every setting that is out of its bounds is reported.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"defaults":              {func(*Options) {}, nil},
		"none":                  {func(o *Options) { *o = Options{} }, nil},
		"the least":             {func(o *Options) { *o = Options{Workers: 1, SyncPeriod: 100 * time.Millisecond} }, nil},
		"no workers":            {func(o *Options) { o.Workers = 0 }, []string{"--concurrent-horizontal-pod-autoscaler-syncs is 0, must be greater than 0"}},
		"too short a period":    {func(o *Options) { o.SyncPeriod = time.Millisecond }, []string{"--horizontal-pod-autoscaler-sync-period is 1ms, must be at least 100ms"}},
		"a negative tolerance":  {func(o *Options) { o.Tolerance = -0.1 }, []string{"--horizontal-pod-autoscaler-tolerance is -0.1, must be a number that is not negative"}},
		"no number":             {func(o *Options) { o.Tolerance = math.NaN() }, []string{"--horizontal-pod-autoscaler-tolerance is NaN, must be a number that is not negative"}},
		"an infinite tolerance": {func(o *Options) { o.Tolerance = math.Inf(1) }, []string{"--horizontal-pod-autoscaler-tolerance is +Inf, must be a number that is not negative"}},
		"negative times": {func(o *Options) { o.DownscaleStabilization, o.CPUInitialization, o.InitialReadinessDelay = -1, -2, -3 }, []string{
			"--horizontal-pod-autoscaler-downscale-stabilization is -1ns, must not be negative",
			"--horizontal-pod-autoscaler-cpu-initialization-period is -2ns, must not be negative",
			"--horizontal-pod-autoscaler-initial-readiness-delay is -3ns, must not be negative",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o, got := DefaultOptions(), ""
			c.change(&o)
			if err := o.Check(); err != nil {
				got = err.Error()
			}
			if want := strings.Join(c.want, "\n"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
