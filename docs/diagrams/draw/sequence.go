package main

import "fmt"

// Sizes of a sequence in pixels.
const (
	laneHeight = 48.0
	laneGap    = 16.0
	stepGap    = 22.0
	badge      = 9.0 // radius of a step's number
)

// sequence is a drawing that grows downwards.
type sequence struct {
	*picture
	lanes map[string]box
	y     float64
	steps int
}

func drawSequence(width float64, statements []statement) (*picture, error) {
	q := &sequence{picture: &picture{}, lanes: map[string]box{}}
	for _, s := range statements {
		var err error
		switch s.verb {
		case "lane":
			err = q.lane(s, width)
		case "step", "also":
			err = q.step(s)
		default:
			err = s.errorf("want lane, step or also")
		}
		if err != nil {
			return nil, err
		}
	}
	if q.steps == 0 {
		return nil, fmt.Errorf("the sequence has no step")
	}
	q.height = q.y + stepGap
	var lines []shape
	for _, lane := range q.lanes {
		x := lane.left + lane.width/2
		line := fmt.Sprintf(`<path class="life" d="M%g %gV%g"/>`, x, lane.top+lane.height, q.height-laneGap/2)
		lines = append(lines, shape{sortBy: x, text: line})
	}
	q.below(lines)
	return q.picture, nil
}

func (q *sequence) lane(s statement, width float64) error {
	if len(s.words) != 2 || len(s.texts) == 0 {
		return s.errorf("want ID KIND | TEXT")
	}
	if q.steps > 0 {
		return s.errorf("lanes come before steps")
	}
	if _, twice := q.lanes[s.words[0]]; twice {
		return s.errorf("%s is placed twice", s.words[0])
	}
	kind, err := s.kind(s.words[1])
	if err != nil {
		return err
	}
	b := box{laneGap/2 + float64(len(q.lanes))*width, laneGap / 2, width - laneGap, laneHeight}
	q.lanes[s.words[0]] = b
	q.width, q.y = b.left+b.width+laneGap/2, b.top+b.height+laneGap/2
	return q.box(s, b, kind)
}

// step draws an arrow between two lanes, or a note on one.
func (q *sequence) step(s statement) error {
	number := 0
	if s.verb == "step" {
		q.steps++
		number = q.steps
	}
	if len(s.texts) == 0 || (len(s.words) != 1 && len(s.words) != 3) {
		return s.errorf("want LANE | TEXT, or LANE - LANE | TEXT")
	}
	from, ok := q.lanes[s.words[0]]
	to, both := q.lanes[s.words[len(s.words)-1]]
	if !ok || !both {
		return s.errorf("%v: no such lane stands above this line", s.words)
	}
	x := from.left + from.width/2
	if len(s.words) == 1 {
		q.y += stepGap / 2
		height := lineHeight*float64(len(s.texts)) + 10
		if err := q.box(s, box{from.left, q.y, from.width, height}, "part"); err != nil {
			return err
		}
		q.number(point{from.left, q.y}, number)
		q.y += height
		return nil
	}
	q.y += lineHeight*float64(len(s.texts)) + stepGap/2
	line := []point{{x, q.y}, {to.left + to.width/2, q.y}}
	q.arrow(line, s.words[1] == "--")
	q.label(line, s.texts)
	q.number(line[0], number)
	return nil
}

// number draws the number of a step; 0 is none.
func (q *sequence) number(at point, n int) {
	if n > 0 {
		q.add(`<circle class="badge" cx="%g" cy="%g" r="%g"/><text class="number" x="%g" y="%g">%d</text>`, at.x, at.y, badge, at.x, at.y+4, n)
	}
}
