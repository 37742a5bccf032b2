define i64 @squares(i64 %count) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %added, label %add
add:
  %i = phi i64 [ 0, %entry ], [ %i_next, %add ]
  %total = phi i64 [ 0, %entry ], [ %total_next, %add ]
  %square = mul i64 %i, %i
  %total_next = add i64 %total, %square
  %i_next = add i64 %i, 1
  %i_test = icmp slt i64 %i_next, %count
  br i1 %i_test, label %add, label %added
added:
  %total_all = phi i64 [ 0, %entry ], [ %total_next, %add ]
  %is_zero = icmp eq i64 %total_all, 0
  br i1 %is_zero, label %zero, label %done
zero:
  %hundred = add i64 0, 100
  br label %done
done:
  %sum = phi i64 [ %total_all, %added ], [ %hundred, %zero ]
  ret i64 %sum
}
