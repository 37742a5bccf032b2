define internal void @micro(ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, ptr %prefetch, i64 %prefetch_step) noinline nounwind {
entry:
  %c_row1 = getelementptr i32, ptr %c, i64 %ldc
  %c_line0_0 = getelementptr i8, ptr %c, i64 0
  call void @llvm.prefetch.p0(ptr %c_line0_0, i32 1, i32 3, i32 1)
  %c_line1_0 = getelementptr i8, ptr %c_row1, i64 0
  call void @llvm.prefetch.p0(ptr %c_line1_0, i32 1, i32 3, i32 1)
  %remainder = urem i64 %steps, 1
  %unrolled_steps = sub i64 %steps, %remainder
  br label %unrolled
unrolled:
  %left = phi i64 [ %unrolled_steps, %entry ], [ %left_next, %unrolled ]
  %a_at = phi ptr [ %a, %entry ], [ %a_at_next, %unrolled ]
  %b_at = phi ptr [ %b, %entry ], [ %b_at_next, %unrolled ]
  %line = phi ptr [ %prefetch, %entry ], [ %line_next, %unrolled ]
  %sum0_0 = phi <8 x i32> [ zeroinitializer, %entry ], [ %sum0_0_next, %unrolled ]
  %sum1_0 = phi <8 x i32> [ zeroinitializer, %entry ], [ %sum1_0_next, %unrolled ]
  %line_row0_bytes = mul i64 %prefetch_step, 0
  %line_row0 = getelementptr i8, ptr %line, i64 %line_row0_bytes
  %line_row1_bytes = mul i64 %prefetch_step, 1
  %line_row1 = getelementptr i8, ptr %line, i64 %line_row1_bytes
  %line_next_bytes = mul i64 %prefetch_step, 2
  %line_next = getelementptr i8, ptr %line, i64 %line_next_bytes
  %a0_0_at = getelementptr i32, ptr %a_at, i64 0
  %a0_1_at = getelementptr i32, ptr %a_at, i64 256
  %b0_0_at = getelementptr i32, ptr %b_at, i64 0
  %b0_0 = load <8 x i32>, ptr %b0_0_at, align 4
  %a0_0 = load i32, ptr %a0_0_at, align 4
  %a0_0_all_one = insertelement <8 x i32> poison, i32 %a0_0, i32 0
  %a0_0_all = shufflevector <8 x i32> %a0_0_all_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %sum0_0_next_0 = bitcast <8 x i32> %a0_0_all to <16 x i16>
  %sum0_0_next_1 = bitcast <8 x i32> %b0_0 to <16 x i16>
  %sum0_0_next_product = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %sum0_0_next_0, <16 x i16> %sum0_0_next_1)
  %sum0_0_next = add <8 x i32> %sum0_0, %sum0_0_next_product
  %a0_1 = load i32, ptr %a0_1_at, align 4
  %a0_1_all_one = insertelement <8 x i32> poison, i32 %a0_1, i32 0
  %a0_1_all = shufflevector <8 x i32> %a0_1_all_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %sum1_0_next_0 = bitcast <8 x i32> %a0_1_all to <16 x i16>
  %sum1_0_next_1 = bitcast <8 x i32> %b0_0 to <16 x i16>
  %sum1_0_next_product = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %sum1_0_next_0, <16 x i16> %sum1_0_next_1)
  %sum1_0_next = add <8 x i32> %sum1_0, %sum1_0_next_product
  %b_at_next = getelementptr i32, ptr %b_at, i64 8
  %a_at_next = getelementptr i32, ptr %a_at, i64 1
  %left_next = sub i64 %left, 1
  %left_test = icmp eq i64 %left_next, 0
  br i1 %left_test, label %unrolled_end, label %unrolled
unrolled_end:
  %no_remainder = icmp eq i64 %remainder, 0
  br i1 %no_remainder, label %done, label %single
single:
  %single_left = phi i64 [ %remainder, %unrolled_end ], [ %single_left_next, %single ]
  %a_at_single = phi ptr [ %a_at_next, %unrolled_end ], [ %a_at_last, %single ]
  %b_at_single = phi ptr [ %b_at_next, %unrolled_end ], [ %b_at_last, %single ]
  %line_single = phi ptr [ %line_next, %unrolled_end ], [ %line_last, %single ]
  %sum0_0_single = phi <8 x i32> [ %sum0_0_next, %unrolled_end ], [ %sum0_0_last, %single ]
  %sum1_0_single = phi <8 x i32> [ %sum1_0_next, %unrolled_end ], [ %sum1_0_last, %single ]
  %line_single_row0_bytes = mul i64 %prefetch_step, 0
  %line_single_row0 = getelementptr i8, ptr %line_single, i64 %line_single_row0_bytes
  %line_single_row1_bytes = mul i64 %prefetch_step, 1
  %line_single_row1 = getelementptr i8, ptr %line_single, i64 %line_single_row1_bytes
  %line_last_bytes = mul i64 %prefetch_step, 2
  %line_last = getelementptr i8, ptr %line_single, i64 %line_last_bytes
  %a1_0_at = getelementptr i32, ptr %a_at_single, i64 0
  %a1_1_at = getelementptr i32, ptr %a_at_single, i64 256
  %b1_0_at = getelementptr i32, ptr %b_at_single, i64 0
  %b1_0 = load <8 x i32>, ptr %b1_0_at, align 4
  %a1_0 = load i32, ptr %a1_0_at, align 4
  %a1_0_all_one = insertelement <8 x i32> poison, i32 %a1_0, i32 0
  %a1_0_all = shufflevector <8 x i32> %a1_0_all_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %sum0_0_last_0 = bitcast <8 x i32> %a1_0_all to <16 x i16>
  %sum0_0_last_1 = bitcast <8 x i32> %b1_0 to <16 x i16>
  %sum0_0_last_product = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %sum0_0_last_0, <16 x i16> %sum0_0_last_1)
  %sum0_0_last = add <8 x i32> %sum0_0_single, %sum0_0_last_product
  %a1_1 = load i32, ptr %a1_1_at, align 4
  %a1_1_all_one = insertelement <8 x i32> poison, i32 %a1_1, i32 0
  %a1_1_all = shufflevector <8 x i32> %a1_1_all_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %sum1_0_last_0 = bitcast <8 x i32> %a1_1_all to <16 x i16>
  %sum1_0_last_1 = bitcast <8 x i32> %b1_0 to <16 x i16>
  %sum1_0_last_product = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %sum1_0_last_0, <16 x i16> %sum1_0_last_1)
  %sum1_0_last = add <8 x i32> %sum1_0_single, %sum1_0_last_product
  %b_at_last = getelementptr i32, ptr %b_at_single, i64 8
  %a_at_last = getelementptr i32, ptr %a_at_single, i64 1
  %single_left_next = sub i64 %single_left, 1
  %single_left_test = icmp eq i64 %single_left_next, 0
  br i1 %single_left_test, label %done, label %single
done:
  %sum0_0_single_total = phi <8 x i32> [ %sum0_0_next, %unrolled_end ], [ %sum0_0_last, %single ]
  %sum1_0_single_total = phi <8 x i32> [ %sum1_0_next, %unrolled_end ], [ %sum1_0_last, %single ]
  %first_one = insertelement <8 x i1> poison, i1 %first, i32 0
  %firsts = shufflevector <8 x i1> %first_one, <8 x i1> poison, <8 x i32> zeroinitializer
  %c0_0_at = getelementptr i32, ptr %c, i64 0
  %c0_0_stored = load <8 x i32>, ptr %c0_0_at, align 4
  %c0_0_old = select <8 x i1> %firsts, <8 x i32> zeroinitializer, <8 x i32> %c0_0_stored
  %c0_0 = add <8 x i32> %c0_0_old, %sum0_0_single_total
  store <8 x i32> %c0_0, ptr %c0_0_at, align 4
  %c1_0_at = getelementptr i32, ptr %c_row1, i64 0
  %c1_0_stored = load <8 x i32>, ptr %c1_0_at, align 4
  %c1_0_old = select <8 x i1> %firsts, <8 x i32> zeroinitializer, <8 x i32> %c1_0_stored
  %c1_0 = add <8 x i32> %c1_0_old, %sum1_0_single_total
  store <8 x i32> %c1_0, ptr %c1_0_at, align 4
  ret void
}
